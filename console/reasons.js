/** Grouping of jobs by why they ended: numbers and ids that differ from job to job are left out. */

/** What differs, and what stands for it; the order matters. @type {[RegExp, string][]} */
const PARTS = [
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?/g, '<time>'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<id>'],
  [/\b[0-9A-HJKMNP-TV-Z]{26}\b/g, '<id>'],
  [/\b(?:i|vol|eni|subnet|sg|ami)-[0-9a-f]{8,17}\b/g, '<id>'],
  [/\b(?:0x[0-9a-f]+|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,})\b/gi, '<id>'],
  [/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, '<address>'],
];

/** A number, but for a part of a name (`s3`); after these words it is what tells failures apart, and stays. */
const NUMBER = /\b(exit code|signal|status|status code|HTTP|errno) \d+|(?<![a-z_])\d+(?:[.,]\d+)*/gi;

const MOST = 300;

/**
 * A reason without what differs from job to job: `exit code 3 after # s (attempt # of #)`.
 * @param {string} reason
 */
export function patternOf(reason) {
  let text = reason.slice(0, 2000);
  for (const [part, instead] of PARTS) text = text.replace(part, instead);
  text = text.replace(NUMBER, (found, word) => (word ? found : '#')).replace(/\s+/g, ' ').trim();
  return text.length > MOST ? `${text.slice(0, MOST)}…` : text;
}

/**
 * @template J
 * @typedef {object} ReasonGroup
 * @property {string} pattern
 * @property {J[]} jobs  The newest first, as they were listed.
 * @property {string} newest  When the last of them ended.
 * @property {string} oldest
 */

/**
 * Group jobs by the patterns of their reasons, the largest group first.
 * @template {{ reason: string, ended_at: string | null, created_at: string }} J
 * @param {readonly J[]} jobs
 * @returns {ReasonGroup<J>[]}
 */
export function groupByReason(jobs) {
  /** @type {Map<string, ReasonGroup<J>>} */
  const groups = new Map();
  for (const job of jobs) {
    const pattern = patternOf(job.reason);
    const at = job.ended_at ?? job.created_at;
    const group = groups.get(pattern);
    if (!group) {
      groups.set(pattern, { pattern, jobs: [job], newest: at, oldest: at });
    } else {
      group.jobs.push(job);
      if (at > group.newest) group.newest = at;
      if (at < group.oldest) group.oldest = at;
    }
  }
  return [...groups.values()].sort((a, b) => b.jobs.length - a.jobs.length || (a.newest > b.newest ? -1 : 1));
}
