/** Values of forms, as people type them. */

/** `key=value`, one a line. @param {Record<string, string> | null | undefined} values */
export function linesOf(values) {
  return Object.entries(values ?? {}).map(([key, value]) => `${key}=${value}`).join('\n');
}

/**
 * The keys and values of lines; empty lines are left out.
 * @param {string} text
 * @param {string} what  What a line must be, such as `key=value`.
 * @param {(problem: string) => void} wrong  Told of each line that is none.
 * @returns {[string, string][]}
 */
export function pairsOf(text, what, wrong) {
  return text.split('\n').flatMap((line, n) => {
    if (!line.trim()) return [];
    const at = line.indexOf('=');
    if (at >= 1) return [/** @type {[string, string]} */ ([line.slice(0, at).trim(), line.slice(at + 1)])];
    wrong(`line ${n + 1} must be ${what}`);
    return [];
  });
}

/**
 * The number of a text; undefined if it is empty or none.
 * @param {string} text
 * @param {(problem: string) => void} wrong
 */
export function numberOf(text, wrong) {
  const value = Number(text.trim());
  if (!text.trim()) return undefined;
  if (Number.isFinite(value)) return value;
  wrong('must be a number');
  return undefined;
}

/**
 * A time as RFC 3339; undefined if it is none.
 * @param {string} text  `2026-11-23T14:00`
 * @param {(problem: string) => void} wrong
 * @param {boolean} inUtc  Whether it is in UTC; else in the reader's zone.
 */
export function timeOf(text, wrong, inUtc) {
  const at = new Date(inUtc ? `${text}Z` : text);
  if (!Number.isNaN(at.getTime())) return at.toISOString();
  wrong('must be a time');
  return undefined;
}
