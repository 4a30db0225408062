/** What may be done with a job: by its state, as the API's table has it, and by the caller's scopes. */

/** @typedef {import('./types').Job} Job */
/** @typedef {import('./session.js').Scope} Scope */

/** @typedef {'edit' | 'cancel' | 'retry' | 'dismiss' | 'resubmit' | 'again' | 'hide' | 'unhide' | 'delete'} Action */

/** States in which a job has ended. */
export const ENDED = ['completed', 'failed', 'dead', 'cancelled', 'expired', 'skipped', 'stale', 'dismissed', 'partial_failure'];

/** States from which `cancel` leads on. */
export const CANCELLABLE = ['scheduled', 'waiting', 'pending', 'active', 'retry', 'blocked', 'processing'];

/** States in which a job waits, and may be edited. */
export const EDITABLE = ['scheduled', 'waiting', 'pending', 'retry', 'blocked'];

/** States from which `retry` leads on. */
export const RETRIABLE = ['failed', 'dead'];

/** Ends of jobs that may still be wanted, which a resubmission of many takes unless states are chosen. */
export const UNSUCCESSFUL = ENDED.filter((state) => !['completed', 'dismissed', 'skipped'].includes(state));

/** All states, those that move first. */
export const STATES = ['active', 'pending', 'retry', 'scheduled', 'waiting', 'blocked', 'processing', 'failed', 'dead', 'stale', 'partial_failure',
  'completed', 'cancelled', 'expired', 'skipped', 'dismissed'];

/** What a job is called: its name, its type, or what it runs. @param {Job} job @param {number} most  Characters. */
export function nameOf(job, most) {
  const text = job.name ?? job.type ?? job.command.join(' ');
  return text.length > most ? `${text.slice(0, most)}…` : text || job.id;
}

/** Its reason, if that says more than its state does. @param {{ state: string, reason: string }} job */
export function whyOf({ state, reason }) {
  return (state === 'active' && reason === 'claimed') || (state === 'completed' && reason.startsWith('exit code 0 ')) ? '' : reason;
}

/** Whether it has ended. @param {{ state: string }} job */
export function hasEnded(job) {
  return ENDED.includes(job.state);
}

/** Whether it is a group of jobs. @param {Job} job */
export function isGroup(job) {
  return job.members !== null || job.state === 'processing' || job.state === 'partial_failure';
}

/** Whether its deadline has passed. @param {Job} job */
function isPast(job) {
  return job.deadline !== null && Date.parse(job.deadline) <= Date.now();
}

/** Whether it may be started again under its id: `joblane.job.moves` decides so. @param {Job} job */
function restarts(job) {
  const several = job.array !== null || (job.target !== null && job.target !== '_any' && !job.target.startsWith('host:'));
  if (several && job.members === null) return false; // its members were never made
  return !isPast(job) && (job.restartable || (job.attempt === 0 && job.members === null));
}

/**
 * The actions that the API would take now, as `joblane.job.offers` has them.
 * @param {Job} job
 * @param {(scope: Scope) => boolean} can
 * @param {boolean} failed  Whether it is a group of which members failed, as far as that is known.
 * @returns {Action[]}
 */
export function actionsOf(job, can, failed = false) {
  const ended = hasEnded(job);
  const member = job.group !== null;
  const dead = job.state === 'dead' && !member;
  /** @type {[Action, Scope, boolean][]} */
  const table = [
    ['edit', 'jobs.submit', EDITABLE.includes(job.state) && !member],
    ['cancel', 'jobs.cancel', CANCELLABLE.includes(job.state) && job.cancel_requested === null],
    ['retry', dead && !can('jobs.submit') ? 'admin.mutate' : 'jobs.submit', ([...RETRIABLE, 'partial_failure'].includes(job.state) || (failed && job.state === 'completed')) && restarts(job)],
    ['dismiss', 'admin.mutate', dead],
    ['resubmit', 'jobs.submit', ended && !member && !isPast(job)],
    ['again', 'jobs.submit', true],
    ['hide', 'jobs.cancel', ended && !member && !job.hidden],
    ['unhide', 'jobs.cancel', ended && !member && job.hidden],
    ['delete', 'jobs.cancel', ended && !member], // the API deletes what waits, too; here it is cancelled first
  ];
  return table.filter(([, scope, allowed]) => allowed && can(scope)).map(([action]) => action);
}

/** What is done most with a job that waits or runs, that could not do its work, and that has ended. @type {readonly Action[][]} */
const FIRST = [['edit', 'cancel'], ['retry', 'again'], ['resubmit', 'again']];

/**
 * The actions that have a button of their own, and the rest, which stand in a menu.
 * @param {readonly Action[]} allowed
 * @param {{ state: string }} job
 * @returns {[Action[], Action[]]}
 */
export function placed(allowed, job) {
  const first = FIRST[!hasEnded(job) ? 0 : allowed.includes('retry') ? 1 : 2] ?? [];
  return [first.filter((action) => allowed.includes(action)), allowed.filter((action) => !first.includes(action))];
}
