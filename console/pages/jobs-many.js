/** Actions on many jobs of the list: on those that are selected, and on all that the filters match. */

import { call, path } from '../api.js';
import { confirm, perform } from '../dialogs.js';
import { actionsOf, CANCELLABLE, ENDED, isGroup, RETRIABLE, UNSUCCESSFUL } from '../job-actions.js';
import { wordsOf } from '../job-filters.js';
import { useKeys } from '../keys.js';
import { readList } from '../lists.js';
import { can } from '../session.js';
import { sweepEach, sweepPages, SweepProgress, useSweep } from '../sweep.js';
import { html, useState } from '../view.js';
import { members } from './job-buttons.js';

/** @typedef {import('../types').Job} Job */
/** @typedef {import('../job-filters.js').Filters} Filters */

/** Jobs that are counted before an action on all that match. */
const COUNTED = 1000;

/**
 * @typedef {object} Doing
 * @property {'cancel' | 'retry' | 'resubmit'} name
 * @property {'jobs.cancel' | 'jobs.submit'} scope
 * @property {readonly string[]} states  Jobs in these states can be changed so.
 * @property {readonly string[]} [usual]  Those of them that are meant if no filter names states.
 * @property {string} label
 * @property {'cancelled' | 'retried' | 'resubmitted'} done  Also the field of the API's answer.
 * @property {string} text  What follows from it.
 */

/** @type {readonly Doing[]} */
const DOINGS = [
  { name: 'cancel', scope: 'jobs.cancel', states: CANCELLABLE, label: 'Cancel', done: 'cancelled', text: 'Agents stop those that run. A cancelled job does not run again by itself.' },
  { name: 'retry', scope: 'jobs.submit', states: RETRIABLE, label: 'Retry', done: 'retried', text: 'They start again under the same ids, with their attempts counted from zero.' },
  { name: 'resubmit', scope: 'jobs.submit', states: ENDED, usual: UNSUCCESSFUL, label: 'Resubmit', done: 'resubmitted', text: 'A new job is made of each. What was resubmitted before is left out.' },
];

/** Whether a job was resubmitted before: of many, each is once. @param {Doing} doing @param {Job} job */
function repeated(doing, job) {
  return doing.name === 'resubmit' && job.resubmitted_as !== null;
}

/** `1 job`, `37 jobs`. @param {number} count */
function jobsOf(count) {
  return `${count.toLocaleString('en-GB')} ${count === 1 ? 'job' : 'jobs'}`;
}

/**
 * The id of the job whose row has the focus.
 * @param {readonly Job[]} jobs
 */
function focused(jobs) {
  const link = document.activeElement?.closest('tbody tr')?.querySelector('a');
  return jobs.find((job) => link?.getAttribute('href')?.endsWith(`/${job.id}`));
}

/**
 * @param {object} props
 * @param {URLSearchParams} props.query  The page's filters, for the question.
 * @param {Filters} props.filters
 * @param {readonly Job[]} props.jobs  Those on the page.
 * @param {Set<string>} props.selected
 * @param {(ids: Set<string>) => void} props.setSelected
 * @param {() => void} props.refresh
 */
export function Many({ query, filters, jobs, selected, setSelected, refresh }) {
  const sweep = useSweep(refresh);
  const [counting, setCounting] = useState('');
  const running = sweep.sweep?.phase === 'running';

  /** @param {Doing} doing @param {readonly Job[]} chosen */
  const each = async (doing, chosen) => {
    const fit = chosen.filter((job) => actionsOf(job, can).includes(doing.name) && !repeated(doing, job));
    const count = jobsOf(fit.length);
    const left = chosen.length - fit.length;
    if (!fit.length) {
      await confirm({ title: `None of them can be ${doing.done}`, text: `Only jobs that are ${doing.states.join(', ')} can be; the page of a job shows what it allows.`.replaceAll('_', ' '), action: 'Close' });
      return;
    }
    const answer = await confirm({
      title: `${doing.label} ${count}?`, text: `${left ? `${jobsOf(left)} of the selected ones cannot be ${doing.done} and stay as they are. ` : ''}${doing.text}`,
      action: `${doing.label} ${count}`, danger: doing.name === 'cancel', reason: true,
    });
    if (!answer) return;
    setSelected(new Set());
    await sweep.start({ title: `${doing.label} ${count}`, verb: doing.done, of: fit.length }, (report, signal) => {
      const groups = new Set(fit.filter(isGroup).map((job) => job.id));
      const run = (/** @type {string} */ id) => (groups.has(id) && doing.name !== 'resubmit' ? members(doing.name, id, { reason: answer.reason }, signal)
        : call('POST', path`v1/jobs/${id}/${doing.name}`, { body: { reason: answer.reason }, signal }));
      return sweepEach(fit.map((job) => job.id), run, report, signal);
    });
  };

  /** @param {Doing} doing */
  const all = async (doing) => {
    const until = typeof filters.until === 'string' ? filters.until : new Date().toISOString();
    const chosen = { ...filters, state: statesOf(doing, filters), until };
    setCounting(doing.name);
    const found = await perform('Jobs counted', () => readList('v1/jobs', chosen, COUNTED)).finally(() => setCounting(''));
    if (!found) return;
    const of = found.entries.filter((job) => !repeated(doing, job)).length;
    const count = `${found.next ? 'at least ' : ''}${jobsOf(of)}`;
    const words = wordsOf(query);
    if (!of && !found.next) {
      await confirm({ title: `No job that matches can be ${doing.done}`, text: `Filters: ${words}.`, action: 'Close' });
      return;
    }
    const answer = await confirm({
      title: `${doing.label} ${count} that match?`,
      text: html`<p>Filters: <strong>${words}</strong>. ${chosen.state.length < (filters.state?.length ?? 99) && `Of them, those that can be ${doing.done}: ${chosen.state.join(', ').replaceAll('_', ' ')}.`} What is submitted from now on is left out.</p><p>${doing.text}</p>`,
      action: `${doing.label} ${count}`, danger: doing.name === 'cancel', reason: true,
    });
    if (!answer) return;
    const about = { title: `${doing.label} ${count}`, verb: doing.done, ...(found.next ? {} : { of }) };
    await sweep.start(about, (report, signal) => sweepPages(
      (next) => call('POST', `v1/jobs/${doing.name}`, { query: { ...chosen, next }, body: { reason: answer.reason }, signal }), doing.done, report, signal));
  };

  /** @param {Doing} doing */
  const byKey = (doing) => {
    const one = focused(jobs);
    const chosen = selected.size ? jobs.filter((job) => selected.has(job.id)) : one ? [one] : [];
    if (chosen.length && can(doing.scope) && !running) void each(doing, chosen);
  };
  useKeys(DOINGS.filter((doing) => doing.name !== 'resubmit').map((doing) => ({ keys: doing.name === 'cancel' ? 'c' : 'r', what: `${doing.label} the selected jobs, or the one of the row`, run: () => byKey(doing) })));

  if (sweep.sweep) return html`<${SweepProgress} of=${sweep} />`;
  const allowed = DOINGS.filter((doing) => can(doing.scope));
  const words = wordsOf(query); // without a filter all jobs of the tenant would match
  if (selected.size) {
    const chosen = jobs.filter((job) => selected.has(job.id));
    return html`<span role="status">${selected.size} selected</span>
      ${allowed.map((doing) => html`<button type="button" class=${doing.name === 'cancel' ? 'danger' : ''} onClick=${() => each(doing, chosen)}>${doing.label} selected</button>`)}
      <button type="button" class="quiet" onClick=${() => setSelected(new Set())}>Select none</button>`;
  }
  return allowed.filter((doing) => words && jobs.some((job) => statesOf(doing, filters).includes(job.state)))
    .map((doing) => html`<button type="button" onClick=${() => all(doing)} disabled=${counting !== ''}>${counting === doing.name ? 'Counting…' : `${doing.label} all that match`}</button>`);
}

/** The states of the filters that can be changed so; the usual ones if there is no filter by state. @param {Doing} doing @param {Filters} filters */
function statesOf(doing, filters) {
  const chosen = filters.state;
  return Array.isArray(chosen) ? doing.states.filter((state) => chosen.includes(state)) : [...(doing.usual ?? doing.states)];
}
