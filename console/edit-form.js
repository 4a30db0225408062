/** The form that edits a job which waits, and the merge patch that it makes. */

import { linesOf, numberOf, pairsOf, timeOf } from './form-values.js';
import { changesOf } from './submission.js';
import { clock } from './time.js';

/** @typedef {import('./types').Job} Job */

/**
 * @typedef {object} Form
 * @property {string} queue
 * @property {string} priority
 * @property {string} deadline  `2026-11-23T14:00:00`, in the zone that the page shows; empty: none.
 * @property {string} timeout_s
 * @property {string} memory_mb  Empty: the default.
 * @property {string} cpus  Empty: the default.
 * @property {string} labels  `key=value`, one a line.
 */

/** A field that is wrong. @typedef {{ field: keyof Form, problem: string }} Wrong */

const FIELDS = /** @type {const} */ (['queue', 'priority', 'deadline', 'timeout_s', 'memory_mb', 'cpus', 'labels']);

/**
 * The form with what a job has.
 * @param {Job} job
 * @param {boolean} inUtc  Whether times are in UTC.
 * @returns {Form}
 */
export function formOf(job, inUtc) {
  return {
    queue: job.queue, priority: job.priority, timeout_s: String(job.timeout_s), labels: linesOf(job.labels),
    deadline: job.deadline === null ? '' : clock(job.deadline, inUtc).replace(' ', 'T'),
    memory_mb: String(job.resources.memory_mb ?? ''), cpus: String(job.resources.cpus ?? ''),
  };
}

/**
 * The JSON Merge Patch that makes the first form the second one; and what cannot be sent.
 * @param {Form} first
 * @param {Form} form
 * @param {boolean} inUtc
 * @returns {{ patch: Record<string, any>, wrong: Wrong[] }}
 */
export function patchOf(first, form, inUtc) {
  /** @type {Wrong[]} */
  const wrong = [];
  /** @type {Record<string, any>} */
  const patch = {};
  for (const field of FIELDS) {
    if (form[field].trim() === first[field].trim()) continue;
    const problem = (/** @type {string} */ text) => void wrong.push({ field, problem: text });
    if (field === 'queue' || field === 'priority') patch[field] = form[field];
    else if (field === 'deadline') patch.deadline = form.deadline ? timeOf(form.deadline, problem, inUtc) : null;
    else if (field === 'timeout_s') {
      if (!form.timeout_s.trim()) problem('must be a number of seconds');
      patch.timeout_s = numberOf(form.timeout_s, problem);
    } else if (field === 'labels') patch.labels = labelsPatch(first.labels, form.labels, problem);
    else patch.resources = { ...patch.resources, [field]: form[field].trim() ? numberOf(form[field], problem) : null };
  }
  return { patch, wrong };
}

/** @param {string} first @param {string} text @param {(problem: string) => void} problem */
function labelsPatch(first, text, problem) {
  const before = Object.fromEntries(pairsOf(first, 'key=value', () => undefined));
  const after = Object.fromEntries(pairsOf(text, 'key=value', problem).map(([key, value]) => [key, value.trim()]));
  return changesOf(before, after);
}

/**
 * The field of the form that a field of the request comes from; empty if there is none.
 * @param {string} path  As problem+json names it: `resources.cpus`, `labels.team`.
 * @returns {keyof Form | ''}
 */
export function controlOf(path) {
  const [name = '', member = ''] = path.split('.');
  return FIELDS.find((field) => field === (name === 'resources' ? member : name)) ?? '';
}
