/** Figures of queues: sums over lanes, rates, and what a reader should know first. */

/** @typedef {import('./types').QueueView} QueueView */
/** @typedef {import('./types').LaneView} LaneView */

/** @param {QueueView} queue @param {'visible' | 'in_flight' | 'delayed' | 'dead_letters'} figure */
export function total(queue, figure) {
  return queue.lanes.reduce((sum, lane) => sum + lane[figure], 0);
}

/** Age of the oldest message of a queue in seconds; null if no lane has one. @param {QueueView} queue */
export function oldestS(queue) {
  const ages = queue.lanes.flatMap((lane) => (lane.oldest_s === null ? [] : [lane.oldest_s]));
  return ages.length ? Math.max(...ages) : null;
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
  const dead = total(queue, 'dead_letters');
  if (!queue.settings.run_jobs) {
    if (waiting > 0) found.push('jobs wait for it to be resumed');
  } else if (queue.settings.cluster_threads === 0 || (queue.settings.threads ?? queue.settings.threads_declared) === 0) {
    found.push('limited to 0 jobs');
  } else if (waiting > 0 && total(queue, 'in_flight') === 0 && activityOf(queue, 5)?.started.jobs === 0) {
    found.push('jobs wait, none started in 5 min');
  }
  if (hour && hour.failed.jobs > hour.completed.jobs) found.push('more than half of the jobs failed in 60 min');
  if (dead > 0) found.push(dead === 1 ? '1 dead letter' : `${dead} dead letters`);
  return found;
}
