/** The form of a submission: its fields as texts, and the request that they make. */

import { linesOf, numberOf, pairsOf, timeOf } from './form-values.js';
import { resolved } from './schema.js';

/** @typedef {import('./submission.js').Fields} Fields */
/** @typedef {import('./schema.js').Schema} Schema */

/**
 * What stands in the form; all of it is text.
 * @typedef {object} Form
 * @property {'shell' | 'arguments' | 'type'} kind  What runs: a line for a shell, a program with one argument a line, or a job type.
 * @property {string} shell
 * @property {string} arguments
 * @property {string} type
 * @property {string} params  JSON.
 * @property {string} name
 * @property {string} queue
 * @property {string} priority
 * @property {string} network
 * @property {string} cpus
 * @property {string} memory_mb
 * @property {string} pids
 * @property {string} timeout_s
 * @property {string} max_attempts
 * @property {string} backoff_s  Numbers with commas between them.
 * @property {string} run_at  `2026-11-23T14:00`, in the zone that the page shows.
 * @property {string} env  `NAME=value`, one a line.
 * @property {string} labels  `key=value`, one a line.
 * @property {string} notify  A URL, the ARN of an SNS topic, or `eventbridge`.
 * @property {string} notify_on  Names of events with commas between them.
 * @property {string} other  JSON: what the form has no field for.
 */

/** A field that is wrong. @typedef {{ field: keyof Form, problem: string }} Wrong */

/** An empty form. @type {Form} */
export const EMPTY = {
  kind: 'shell', shell: '', arguments: '', type: '', params: '', name: '', queue: '', priority: 'default', network: 'none', cpus: '', memory_mb: '',
  pids: '', timeout_s: '', max_attempts: '', backoff_s: '', run_at: '', env: '', labels: '', notify: '', notify_on: '', other: '',
};

const RESOURCES = /** @type {const} */ (['cpus', 'memory_mb', 'pids']);

/**
 * The form that makes such a submission; what it has no field for stands in `other`.
 * @param {Fields} fields
 * @param {number} nowMs  Times before it are left out.
 * @returns {Form}
 */
export function formOf(fields, nowMs) {
  const form = { ...EMPTY };
  /** @type {Fields} */
  const rest = structuredClone(fields);
  const take = (/** @type {string} */ name) => {
    const value = rest[name];
    delete rest[name];
    return value;
  };
  for (const name of /** @type {const} */ (['name', 'queue', 'priority', 'network', 'timeout_s'])) if (name in rest) form[name] = String(take(name));
  if (rest.type) {
    form.kind = 'type';
    form.type = take('type');
    form.params = JSON.stringify(take('params') ?? {}, null, 2);
  } else if (Array.isArray(rest.command) && !rest.command.some((word) => word.includes('\n') && !isShell(rest.command))) {
    const words = /** @type {string[]} */ (take('command'));
    form.kind = isShell(words) ? 'shell' : 'arguments';
    if (form.kind === 'shell') form.shell = words[2] ?? '';
    else form.arguments = words.join('\n') + (words.at(-1) ? '' : '\n');
  }
  const env = Object.entries(rest.env ?? {});
  if (!env.some(([, value]) => String(value).includes('\n'))) form.env = linesOf(take('env'));
  form.labels = linesOf(take('labels'));
  for (const name of RESOURCES) if (rest.resources?.[name] !== undefined) form[name] = String(rest.resources[name]);
  for (const name of RESOURCES) delete rest.resources?.[name];
  if (rest.resources && !Object.keys(rest.resources).length) delete rest.resources;
  const retry = take('retry');
  if (retry) {
    form.max_attempts = String(retry.max_attempts ?? '');
    form.backoff_s = (retry.backoff_s ?? []).join(', ');
  }
  const notify = take('notify');
  if (notify) {
    form.notify = notify.url ?? notify.sns ?? 'eventbridge';
    form.notify_on = (notify.on ?? []).join(', ');
  }
  for (const name of ['run_at', 'deadline']) if (rest[name] && Date.parse(rest[name]) <= nowMs) delete rest[name];
  if (Object.keys(rest).length) form.other = JSON.stringify(rest, null, 2);
  return form;
}

/**
 * The form for a job of a type, with the parameters that its schema requires.
 * @param {string} type
 * @param {Schema} schema
 * @returns {Form}
 */
export function formOfType(type, schema) {
  const params = Object.fromEntries((schema.required ?? []).map((/** @type {string} */ name) => [name, first(schema.properties?.[name] ?? {}, schema)]));
  return { ...EMPTY, kind: 'type', type, params: JSON.stringify(params, null, 2) };
}

/** A value to begin with. @param {Schema} given @param {Schema} root @returns {unknown} */
function first(given, root) {
  const schema = resolved(given, root);
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const types = { string: '', integer: 0, number: 0, boolean: false, array: [], object: {} };
  return types[/** @type {keyof typeof types} */ (schema.type)] ?? null;
}

/** @param {readonly string[]} words */
function isShell(words) {
  return words.length === 3 && words[0] === 'sh' && words[1] === '-c';
}

/**
 * The submission that a form makes, without what is empty; and what cannot be one.
 * @param {Form} form
 * @param {boolean} inUtc  Whether `run_at` is in UTC.
 * @returns {{ fields: Fields, wrong: Wrong[] }}
 */
export function fieldsOf(form, inUtc) {
  /** @type {Wrong[]} */
  const wrong = [];
  const object = (/** @type {'params' | 'other'} */ field) => {
    if (!form[field].trim()) return {};
    try {
      const value = JSON.parse(form[field]);
      if (value && typeof value === 'object' && !Array.isArray(value)) return value;
      wrong.push({ field, problem: 'must be a JSON object' });
    } catch (error) {
      wrong.push({ field, problem: `is not JSON: ${error instanceof Error ? error.message : error}` });
    }
    return {};
  };
  const wrongIn = (/** @type {keyof Form} */ field) => (/** @type {string} */ problem) => void wrong.push({ field, problem });
  const number = (/** @type {keyof Form} */ field) => numberOf(form[field], wrongIn(field));

  /** @type {Fields} */
  const fields = {};
  const put = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    const isEmpty = value === undefined || value === '' || (typeof value === 'object' && value !== null && !Object.keys(value).length);
    if (!isEmpty) fields[name] = value;
  };
  put('name', form.name.trim());
  const other = object('other');
  if (form.kind === 'type') Object.assign(fields, { type: form.type.trim(), params: object('params') });
  else if (form.kind === 'shell' && form.shell.trim()) fields.command = ['sh', '-c', form.shell];
  else if (form.kind === 'arguments' && form.arguments) put('command', form.arguments.replace(/\n$/, '').split('\n'));
  put('queue', form.queue.trim());
  if (form.priority !== 'default') put('priority', form.priority);
  if (form.network !== 'none') put('network', form.network);
  put('resources', { ...other.resources, ...Object.fromEntries(RESOURCES.flatMap((name) => (number(name) === undefined ? [] : [[name, number(name)]]))) });
  put('env', Object.fromEntries(pairsOf(form.env, 'NAME=value', wrongIn('env'))));
  put('labels', Object.fromEntries(pairsOf(form.labels, 'key=value', wrongIn('labels')).map(([key, value]) => [key, value.trim()])));
  put('timeout_s', number('timeout_s'));
  const backoff = form.backoff_s.split(',').map((each) => each.trim()).filter(Boolean).map(Number);
  if (backoff.some((each) => !Number.isFinite(each))) wrong.push({ field: 'backoff_s', problem: 'must be numbers of seconds with commas between them' });
  const attempts = number('max_attempts');
  put('retry', { ...(attempts === undefined ? {} : { max_attempts: attempts }), ...(backoff.length ? { backoff_s: backoff } : {}) });
  const to = form.notify.trim();
  const events = form.notify_on.split(',').map((each) => each.trim()).filter(Boolean);
  if (events.length && !to) wrong.push({ field: 'notify', problem: 'is needed for these events' });
  if (to) fields.notify = { ...(to === 'eventbridge' ? { eventbridge: true } : to.startsWith('arn:') ? { sns: to } : { url: to }), ...(events.length ? { on: events } : {}) };
  if (form.run_at) put('run_at', timeOf(form.run_at, inUtc, wrongIn('run_at')));
  for (const [name, value] of Object.entries(other)) if (!(name in fields)) fields[name] = value;
  const unique = wrong.filter((one, n) => wrong.findIndex((each) => each.field === one.field && each.problem === one.problem) === n);
  return { fields, wrong: unique };
}

/**
 * The field of the form that a field of the request comes from.
 * @param {string} path  As problem+json names it: `resources.cpus`, `env.PATH`, `command.0`.
 * @param {Form} form
 * @returns {keyof Form}
 */
export function controlOf(path, form) {
  const [first = '', second = ''] = path.split('.');
  if (first === 'command') return form.kind === 'arguments' ? 'arguments' : form.kind;
  if (first === 'notify') return second === 'on' ? 'notify_on' : 'notify';
  const name = first === 'resources' || first === 'retry' ? second : first;
  return name in EMPTY ? /** @type {keyof Form} */ (name) : 'other';
}
