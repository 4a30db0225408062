/** Submissions: the fields of a job that a submission sets, without those that have their default. */

/** @typedef {import('./types').Job} Job */

/** Fields of a submission, in the order in which people read them. */
const FIELDS = /** @type {const} */ ([
  'name', 'type', 'params', 'command', 'queue', 'priority', 'resources', 'network', 'env', 'secret_env', 'mask_secrets', 'merge_stderr', 'stdin', 'stdin_file', 'inputs', 'outputs',
  'timeout_s', 'heartbeat_timeout_s', 'restartable', 'retry', 'exit_codes', 'labels', 'items', 'run_at', 'deadline', 'requires', 'concurrency', 'array', 'target', 'reply_timeout_s', 'max_concurrency', 'max_failures', 'tolerate', 'notify',
]);

/** Values that a field has without being given. @type {Record<string, unknown>} */
const DEFAULTS = { priority: 'default', network: 'none', timeout_s: 600, restartable: true, mask_secrets: true, merge_stderr: false, items: 1, retry: { max_attempts: 3, backoff_s: [5, 30, 120, 600, 1800] }, exit_codes: { permanent: [], blocked: [], skipped: [] } };

/** Fields of a job as somebody would submit them. @typedef {Record<string, any>} Fields */

/**
 * The submission that makes such a job.
 * @param {Job} job  As `GET /v1/jobs/{id}` answers it.
 * @returns {Fields}
 */
export function specificationOf(job) {
  /** @type {Fields} */
  const fields = {};
  for (const name of FIELDS) {
    const value = withoutNull(job[name]);
    if (isEmpty(value) || JSON.stringify(value) === JSON.stringify(DEFAULTS[name])) continue;
    fields[name] = value;
  }
  if (fields.type) {
    delete fields.command; // a built-in type has the command that its params make
    fields.params ??= {};
  }
  return fields;
}

/**
 * What makes one submission of another: a JSON merge patch, in which null removes a field.
 * @param {Fields} before
 * @param {Fields} after
 * @returns {Fields}
 */
export function changesOf(before, after) {
  /** @type {Fields} */
  const changes = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [was, is] = [before[name], after[name]];
    if (is === undefined) changes[name] = null;
    else if (isObject(was) && isObject(is)) {
      const inner = changesOf(was, is);
      if (Object.keys(inner).length) changes[name] = inner;
    } else if (JSON.stringify(was) !== JSON.stringify(is)) changes[name] = is;
  }
  return changes;
}

/** @param {unknown} value @returns {value is Fields} */
function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The limits that apply to each attempt, in the API's names, which have their units.
 * @param {Pick<Job, 'limits' | 'resources'>} job
 */
export function limitsOf({ limits, resources }) {
  /** @type {Record<string, unknown>} */
  const asked = { ...resources };
  return Object.entries(limits).filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${value}${(asked[name] ?? null) !== null ? '' : name === 'memory_mb' ? ' (default, on agents that can limit it)' : ' (default)'}`).join(', ');
}

/**
 * What exit codes mean that a job names, in words; empty if it names none.
 * @param {Job['exit_codes'] | null | undefined} codes
 */
export function exitCodes(codes) {
  return [['no further attempt after', codes?.permanent], ['waits for a condition after', codes?.blocked], ['skipped after', codes?.skipped]]
    .flatMap(([text, named]) => (named?.length ? [`${text} ${/** @type {number[]} */ (named).join(', ')}`] : [])).join('; ');
}

/** @param {unknown} value @returns {unknown} */
function withoutNull(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null));
}

/** @param {unknown} value */
function isEmpty(value) {
  return value === null || value === undefined || (typeof value === 'object' && Object.keys(value).length === 0);
}
