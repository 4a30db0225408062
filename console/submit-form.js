/** The form of a submission: its fields as texts, and the request that they make. */

import { linesOf, numberOf, pairsOf, timeOf } from './form-values.js';
import { resolved } from './schema.js';

/** @typedef {import('./submission.js').Fields} Fields */
/** @typedef {import('./schema.js').Schema} Schema */

/**
 * How a value is written in the form. `show` answers undefined for what cannot be written so, and `read` for nothing.
 * @typedef {object} Kind
 * @property {(value: any) => string | undefined} show
 * @property {(text: string, wrong: (problem: string) => void, inUtc: boolean) => unknown} read
 */

/** @type {Record<string, Kind>} */
const KINDS = {
  text: { show: String, read: (text) => text.trim() },
  whole: { show: String, read: (text) => text },
  number: { show: String, read: numberOf },
  numbers: { show: (value) => value.join(', '), read: (text, wrong) => {
    const all = text.split(',').map((each) => each.trim()).filter(Boolean).map(Number);
    if (!all.every(Number.isFinite)) wrong('must be numbers with commas between them');
    return all;
  } },
  lines: { show: (value) => value.join('\n'), read: (text) => text.split('\n').map((each) => each.trim()).filter(Boolean) },
  pairs: { show: (value) => (Object.values(value).some((each) => each.includes('\n')) ? undefined : linesOf(value)), read: (text, wrong) => Object.fromEntries(pairsOf(text, 'NAME=value', wrong)) },
  labels: { show: linesOf, read: (text, wrong) => Object.fromEntries(pairsOf(text, 'key=value', wrong).map(([key, value]) => [key, value.trim()])) },
  flag: { show: (value) => (value ? 'yes' : 'no'), read: (text) => text === 'yes' },
  time: { show: () => undefined, read: timeOf },
  list: { show: JSON.stringify, read: (text) => JSON.parse(text) },
  object: { show: (value) => JSON.stringify(value, null, 2), read: objectOf },
  values: { show: (value) => value.map((/** @type {unknown} */ each) => JSON.stringify(each)).join('\n'), read: valuesOf },
  range: {
    show: ({ size, first, last, step = 1 }) => String(size ?? `${first}-${last}${step === 1 ? '' : `:${step}`}`),
    read: (text, wrong) => {
      const [, first, last, step] = /^\s*(\d+)(?:-(\d+)(?::(\d+))?)?\s*$/.exec(text) ?? [];
      if (first === undefined) return wrong('must be a number of jobs, such as 100, or a range of indices, such as 1-99:2');
      return last === undefined ? { size: Number(first) } : { first: Number(first), last: Number(last), ...(step ? { step: Number(step) } : {}) };
    },
  },
  tolerance: { show: String, read: (text) => (/^\s*\d+\s*$/.test(text) ? Number(text) : text.trim()) },
};

/** Where the text of a control stands in the request, and its kind. @type {Record<string, readonly [string, string]>} */
const CONTROLS = {
  name: ['name', 'text'], queue: ['queue', 'text'], priority: ['priority', 'text'], network: ['network', 'text'], target: ['target', 'text'],
  cpus: ['resources.cpus', 'number'], memory_mb: ['resources.memory_mb', 'number'], pids: ['resources.pids', 'number'], cores: ['resources.cores', 'text'],
  io_bps: ['resources.io_bps', 'number'], tmp_mb: ['resources.tmp_mb', 'number'], disk_mb: ['resources.disk_mb', 'number'],
  env: ['env', 'pairs'], secret_env: ['secret_env', 'pairs'], labels: ['labels', 'labels'], stdin: ['stdin', 'whole'], inputs: ['inputs', 'list'], outputs: ['outputs', 'lines'], requires: ['requires', 'lines'],
  timeout_s: ['timeout_s', 'number'], heartbeat_timeout_s: ['heartbeat_timeout_s', 'number'], max_attempts: ['retry.max_attempts', 'number'], backoff_s: ['retry.backoff_s', 'numbers'],
  permanent: ['exit_codes.permanent', 'numbers'], blocked: ['exit_codes.blocked', 'numbers'], skipped: ['exit_codes.skipped', 'numbers'],
  run_at: ['run_at', 'time'], deadline: ['deadline', 'time'], items: ['items', 'number'], restartable: ['restartable', 'flag'], merge_stderr: ['merge_stderr', 'flag'],
  mask_secrets: ['mask_secrets', 'flag'], concurrency: ['concurrency', 'object'], reply_timeout_s: ['reply_timeout_s', 'number'],
  max_concurrency: ['max_concurrency', 'number'], max_failures: ['max_failures', 'number'], tolerate: ['tolerate', 'tolerance'],
  array_values: ['array.values', 'values'], array: ['array', 'range'],
};

/**
 * What stands in the form; all of it is text. `kind` is what runs: a line for a shell, a program with one argument a line, or a
 * job type. `notify` is a URL, the ARN of an SNS topic, or `eventbridge`. `other` is JSON: what the form has no control for.
 * @typedef {{ [control: string]: string } & { kind: 'shell' | 'arguments' | 'type', shell: string, arguments: string, type: string, params: string, notify: string, notify_on: string, notify_members: string, other: string }} Form
 */

/** A control that is wrong. @typedef {{ field: string, problem: string }} Wrong */

/** An empty form. @type {Form} */
export const EMPTY = {
  ...Object.fromEntries(Object.keys(CONTROLS).map((control) => [control, ''])), kind: 'shell', shell: '', arguments: '', type: '', params: '', priority: 'default',
  network: 'none', restartable: 'yes', mask_secrets: 'yes', merge_stderr: 'no', notify: '', notify_on: '', notify_members: 'no', other: '',
};

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
  for (const [control, [path, kind]] of Object.entries(CONTROLS)) {
    const [first = '', second] = path.split('.');
    const holder = second === undefined ? rest : rest[first];
    const value = holder?.[second ?? first];
    const shown = value === undefined ? undefined : KINDS[kind]?.show(value);
    if (shown === undefined) continue;
    form[control] = shown;
    delete holder[second ?? first];
    if (!Object.keys(holder).length) delete rest[first];
  }
  const notify = take('notify');
  if (notify) {
    form.notify = notify.url ?? notify.sns ?? 'eventbridge';
    form.notify_on = (notify.on ?? []).join(', ');
    if (notify.members) form.notify_members = 'yes';
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
  const wrongIn = (/** @type {string} */ field) => (/** @type {string} */ problem) => void wrong.push({ field, problem });
  const object = (/** @type {'params' | 'other'} */ field) => objectOf(form[field], wrongIn(field)) ?? {};

  /** @type {Fields} */
  const fields = {};
  const put = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    if (!isEmpty(value)) fields[name] = value;
  };
  const other = object('other');
  if (form.kind === 'type') Object.assign(fields, { type: form.type.trim(), params: object('params') });
  else if (form.kind === 'shell' && form.shell.trim()) fields.command = ['sh', '-c', form.shell];
  else if (form.kind === 'arguments' && form.arguments) put('command', form.arguments.replace(/\n$/, '').split('\n'));
  for (const [control, [path, kind]] of Object.entries(CONTROLS)) {
    const text = form[control] ?? '';
    if (text === EMPTY[control]) continue;
    const value = KINDS[kind]?.read(text, wrongIn(control), inUtc);
    const [first = '', second] = path.split('.');
    if (second === undefined) put(first, fields[first] ? { ...fields[first], .../** @type {object} */ (value) } : value);
    else if (!isEmpty(value)) put(first, { ...fields[first], [second]: value });
  }
  const to = form.notify.trim();
  const events = form.notify_on.split(',').map((each) => each.trim()).filter(Boolean);
  const members = form.notify_members === 'yes';
  if ((events.length || members) && !to) wrong.push({ field: 'notify', problem: events.length ? 'is needed for these events' : 'is needed for members' });
  if (to) fields.notify = { ...(to === 'eventbridge' ? { eventbridge: true } : to.startsWith('arn:') ? { sns: to } : { url: to }), ...(events.length ? { on: events } : {}), ...(members ? { members } : {}) };
  for (const [name, value] of Object.entries(other)) {
    if (!(name in fields)) fields[name] = value;
    else if (/^(resources|retry|exit_codes)$/.test(name)) fields[name] = { ...value, ...fields[name] };
  }
  const unique = wrong.filter((one, n) => wrong.findIndex((each) => each.field === one.field && each.problem === one.problem) === n);
  return { fields, wrong: unique };
}

/** @param {unknown} value */
function isEmpty(value) {
  return value === undefined || value === '' || (typeof value === 'object' && value !== null && !Object.keys(value).length);
}

/** A JSON object; undefined for an empty text, and for what is none. @param {string} text @param {(problem: string) => void} wrong */
function objectOf(text, wrong) {
  if (!text.trim()) return undefined;
  try {
    const value = JSON.parse(text);
    if (value && typeof value === 'object' && !Array.isArray(value)) return value;
    wrong('must be a JSON object');
  } catch (error) {
    wrong(`is not JSON: ${error instanceof Error ? error.message : error}`);
  }
  return undefined;
}

/** A JSON value a line; empty lines are left out. @param {string} text @param {(problem: string) => void} wrong */
function valuesOf(text, wrong) {
  return text.split('\n').flatMap((line, n) => {
    if (!line.trim()) return [];
    try {
      return [JSON.parse(line)];
    } catch {
      wrong(`line ${n + 1} must be JSON, such as "a.csv" or {"n": 1}`);
      return [];
    }
  });
}

/**
 * The control of the form that a field of the request comes from.
 * @param {string} path  As problem+json names it: `resources.cpus`, `env.PATH`, `command.0`.
 * @param {Form} form
 * @returns {string}
 */
export function controlOf(path, form) {
  const [first = '', second = ''] = path.split('.');
  if (first === 'command') return form.kind === 'arguments' ? 'arguments' : form.kind;
  if (first === 'notify') return second === 'on' || second === 'members' ? `notify_${second}` : 'notify';
  const found = Object.entries(CONTROLS).find(([, [place]]) => place === first || place === `${first}.${second}`);
  return found?.[0] ?? (first === 'params' || first === 'type' ? first : 'other');
}
