/** Figures of queues: sums over lanes, rates, and what a reader should look at first. */

import { href } from './router.js';
import { duration } from './time.js';

/** @typedef {import('./types').QueueView} QueueView */
/** @typedef {import('./types').LaneView} LaneView */

/** @param {QueueView} queue @param {'visible' | 'in_flight' | 'delayed'} figure */
export function total(queue, figure) {
  return queue.lanes.reduce((sum, lane) => sum + lane[figure], 0);
}

/** A number with its thousands apart: `12,500`. @param {number} value */
export function grouped(value) {
  return value.toLocaleString('en-GB');
}

/** Jobs, and their items where the number differs: `3 (120)`. @param {import('./types').Count} [count] */
export function open(count) {
  return !count ? '–' : grouped(count.jobs) + (count.items === count.jobs ? '' : ` (${grouped(count.items)})`);
}

/** Time since the oldest of the jobs that wait was submitted. @param {{ jobs?: import('./types').OpenJobs | null }} entry  A queue or a type. */
export function oldest({ jobs }) {
  return duration(jobs?.oldest?.age_s ?? NaN) || '–';
}

/** The activity of the last minutes. @param {QueueView} queue @param {number} minutes  1, 5 or 60. */
export function activityOf(queue, minutes) {
  return queue.activity.find((window) => window.minutes === minutes) ?? null;
}

/**
 * A rate per minute with at most two digits after the point.
 * @param {number} count
 * @param {number} seconds  In which it was counted.
 */
export function perMinute(count, seconds) {
  if (!(seconds > 0)) return '–';
  const rate = (count * 60) / seconds;
  return rate === 0 ? '0' : rate < 0.01 ? '< 0.01' : rate.toLocaleString('en-GB', { maximumFractionDigits: rate < 10 ? 2 : rate < 100 ? 1 : 0 });
}

/**
 * Seconds until what waits has started, at the rate of the last 5 minutes; null if that says nothing.
 * @param {QueueView} queue  Whose activity is that of all jobs in it.
 */
export function backlogS(queue) {
  const recent = activityOf(queue, 5);
  const waiting = total(queue, 'visible');
  return recent && recent.started.jobs > 0 && waiting > 0 ? (waiting * recent.span_s) / recent.started.jobs : null;
}

/**
 * What keeps a queue from its work, or what it left behind; empty if there is nothing to say.
 * @param {QueueView} queue
 * @returns {string[]}
 */
export function troubles(queue) {
  const found = [];
  const waiting = total(queue, 'visible');
  const hour = activityOf(queue, 60);
  if (!queue.settings.run_jobs) {
    if (waiting > 0) found.push('jobs wait for it to be resumed');
  } else if (queue.settings.cluster_threads === 0 || (queue.settings.threads ?? queue.settings.threads_declared) === 0) {
    found.push('limited to 0 jobs');
  } else if (waiting > 0 && total(queue, 'in_flight') === 0 && activityOf(queue, 5)?.started.jobs === 0) {
    found.push('jobs wait, none started in 5 min');
  }
  if (hour && hour.failed.jobs > hour.completed.jobs) found.push('more than half of the jobs failed in 60 min');
  return found;
}

/**
 * What becomes of the jobs of a retired queue; empty for one that takes jobs.
 * @param {QueueView} queue
 * @returns {string}
 */
export function retirement({ retired }) {
  if (retired === null) return '';
  const { moves_to: to, move } = retired;
  if (to === null) return 'takes no more jobs; those that it has run';
  const said = `takes no more jobs; those that wait move to queue ${to}`;
  if (move === null) return `${said} in a minute`;
  return `${said}: ${grouped(move.moved)} moved${move.kept ? `, ${grouped(move.kept)} kept because ${to} does not take them` : ''}`;
}

/** @typedef {import('./types').Summary} Summary */

/**
 * @typedef {object} Notice
 * @property {'bad' | 'warn'} tone  `bad`: jobs cannot run, or are lost without somebody's action.
 * @property {string} text
 * @property {string | null} to  Address of the page for it; null if there is none for this reader.
 */

/** Share of a limit from which on it is worth a look. */
const NEAR = 0.9;

/**
 * What needs attention, the worst first; empty if nothing does.
 * @param {Summary} summary
 * @param {readonly QueueView[]} queues
 * @returns {Notice[]}
 */
export function attention({ agents, jobs, limits, caller }, queues) {
  const operates = caller.scopes.includes('platform.read');
  const states = jobs?.by_state ?? {};
  const waiting = queues.reduce((sum, queue) => sum + total(queue, 'visible'), 0);
  /** @type {Notice[]} */
  const found = [];
  /** @param {Notice['tone']} tone @param {string} text @param {string | null} to */
  const say = (tone, text, to = null) => found.push({ tone, text, to });
  /** @param {Record<string, string>} query */
  const agentsPage = (query = {}) => (operates ? href(['agents'], query) : null);

  if (agents.alive === 0) say('bad', `No agent is alive: no job can start${waiting ? `, and ${count(waiting, 'message')} ${waiting === 1 ? 'waits' : 'wait'}` : ''}.`, agentsPage());
  else if (agents.free === 0 && waiting > 0) say('warn', `No slot is free (${agents.running} of ${agents.slots} in use), and ${count(waiting, 'message')} ${waiting === 1 ? 'waits' : 'wait'}.`, agentsPage());
  for (const queue of jobs === null || states.pending ? queues : []) {
    const missing = agents.lacks[queue.name];
    // Messages of jobs that an agent could not start are hidden for a while: they count as in flight.
    const there = total(queue, 'visible') + total(queue, 'in_flight') + total(queue, 'delayed');
    if (missing?.length && there) say('warn', `No live agent of queue ${queue.name} can give ${missing.join(', ')}: jobs that ask for it wait.`, href(['jobs'], { state: 'pending', queue: queue.name }));
  }
  if (agents.troubled > 0) say('warn', `${count(agents.troubled, 'agent')} ${agents.troubled === 1 ? 'is' : 'are'} in trouble.`, agentsPage({ state: 'trouble' }));
  if (states.dead) say('bad', `${count(states.dead, 'job')} ${states.dead === 1 ? 'is' : 'are'} dead: retry or dismiss.`, caller.scopes.includes('admin.read') ? href(['dead']) : href(['jobs'], { state: 'dead' }));
  for (const queue of queues) {
    const { run_jobs: runs, changed_by: by } = queue.settings;
    const reasons = [...(runs ? [] : [`paused${by ? ` by ${by}` : ''}`]), ...troubles(queue)];
    if (reasons.length) say(runs && reasons.some((reason) => reason.startsWith('jobs wait')) ? 'bad' : 'warn', `Queue ${queue.name}: ${reasons.join('; ')}.`, href(['queues', queue.name]));
  }
  for (const { limit, allowed, current } of limits) {
    if (current !== null && allowed > 0 && current >= allowed * NEAR) {
      say(current >= allowed ? 'bad' : 'warn', `Limit ${limit}: ${grouped(current)} of ${grouped(allowed)} in use.`, href(['settings']));
    }
  }
  if (states.blocked) say('warn', `${count(states.blocked, 'job')} ${states.blocked === 1 ? 'waits' : 'wait'} for a condition.`, href(['jobs'], { state: 'blocked' }));
  return found.sort((a, b) => Number(b.tone === 'bad') - Number(a.tone === 'bad'));
}

/** @param {number} number @param {string} what */
function count(number, what) {
  return `${grouped(number)} ${what}${number === 1 ? '' : 's'}`;
}

/** The queue that started most jobs in the last hour. @param {readonly QueueView[]} queues @returns {string | null} */
export function busiest(queues) {
  const started = (/** @type {QueueView} */ queue) => queue.activity.at(-1)?.started.jobs ?? 0;
  return [...queues].sort((a, b) => started(b) - started(a))[0]?.name ?? null;
}
