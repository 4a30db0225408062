/** The timeline of a job as bars: what it did from one transition to the next, by attempt. */

/** @typedef {import('./types').Transition} Transition */

/** What a job does in a state: it waits to be given to an agent, runs, or waits for something else. @typedef {'queue' | 'run' | 'backoff' | 'wait'} Kind */

/**
 * @typedef {object} Bar
 * @property {Kind} kind
 * @property {string} state
 * @property {number} fromMs
 * @property {number} toMs
 * @property {boolean} open  Whether it goes on.
 */

/**
 * @typedef {object} Row
 * @property {number} attempt  The attempt that begins or has begun there.
 * @property {Bar[]} bars
 */

/** @type {Record<string, Kind>} */
const KINDS = { pending: 'queue', active: 'run', retry: 'backoff', scheduled: 'wait', waiting: 'wait', blocked: 'wait', processing: 'run' };

/**
 * One row for each attempt: what it waited for, its run, and the wait after it.
 * @param {readonly Transition[]} timeline  Oldest first.
 * @param {number} nowMs
 * @returns {Row[]}
 */
export function rows(timeline, nowMs) {
  /** @type {Row[]} */
  const all = [];
  timeline.forEach((step, n) => {
    const kind = KINDS[step.state];
    if (!kind) return;
    const next = timeline[n + 1];
    const fromMs = Date.parse(step.at);
    const toMs = Math.max(fromMs, next ? Date.parse(next.at) : nowMs);
    // A wait before an attempt belongs to the attempt that it is for. One that was handed back is over, and
    // its number is given again: it was not counted.
    const waits = kind === 'queue' || kind === 'wait';
    const attempt = waits ? timeline.slice(n + 1).find((later) => KINDS[later.state] === 'run')?.attempt ?? step.attempt + 1 : step.attempt;
    let row = all.at(-1);
    const ran = row?.bars.some((bar) => bar.kind === 'run');
    if (!row || row.attempt !== attempt || (ran && kind !== 'backoff')) {
      row = { attempt, bars: [] };
      all.push(row);
    }
    row.bars.push({ kind, state: step.state, fromMs, toMs, open: !next });
  });
  return all;
}

/**
 * Seconds in all of each kind.
 * @param {readonly Row[]} all
 * @returns {Record<Kind, number>}
 */
export function totals(all) {
  const sums = { queue: 0, run: 0, backoff: 0, wait: 0 };
  for (const row of all) for (const bar of row.bars) sums[bar.kind] += (bar.toMs - bar.fromMs) / 1000;
  return sums;
}
