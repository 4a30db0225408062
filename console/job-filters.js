/** Filters of the list of jobs: in the page's address, as the API takes them, and as words. */

import { STATES } from './job-actions.js';

/** Spans of time before now that `since` may have in an address, with their words. @type {readonly (readonly [string, string])[]} */
export const SPANS = [['15m', 'last 15 minutes'], ['1h', 'last hour'], ['24h', 'last 24 hours'], ['7d', 'last 7 days']];

const UNIT_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Filters with one value. */
const SINGLE = /** @type {const} */ (['type', 'queue', 'name', 'since', 'until']);

/** A filter of the API's. @typedef {{ [name: string]: string | string[] }} Filters */

/**
 * The filters of an address, as the API takes them; states that there are not are left out.
 * @param {URLSearchParams} query
 * @param {number} nowMs  What spans of time are reckoned from.
 * @returns {Filters}
 */
export function filtersOf(query, nowMs) {
  /** @type {Filters} */
  const filters = {};
  const states = query.getAll('state').filter((state) => STATES.includes(state));
  if (states.length) filters.state = states;
  for (const name of SINGLE) {
    const value = query.get(name);
    if (value) filters[name] = name === 'since' ? momentOf(value, nowMs) : value;
  }
  const labels = query.getAll('label').filter((label) => label.includes('='));
  if (labels.length) filters.label = labels;
  if (query.get('hidden') === 'true') filters.hidden = 'true';
  return filters;
}

/** @param {string} value  A span or a moment. @param {number} nowMs */
function momentOf(value, nowMs) {
  const [, count, unit] = /^(\d{1,4})([mhd])$/.exec(value) ?? [];
  if (!count || !unit) return value;
  return new Date(nowMs - Number(count) * UNIT_MS[/** @type {'m' | 'h' | 'd'} */ (unit)]).toISOString();
}

/**
 * What each filter of an address says, and the address's query without it.
 * @param {URLSearchParams} query
 * @returns {{ text: string, without: URLSearchParams }[]}
 */
export function chipsOf(query) {
  const chips = [];
  for (const name of ['type', 'queue', 'name', 'label', 'since', 'until', 'hidden']) {
    for (const value of query.getAll(name)) {
      const span = name === 'since' ? SPANS.find(([each]) => each === value)?.[1] : undefined;
      const text = name === 'hidden' ? 'hidden ones too' : span ?? (name === 'label' ? value : `${name} ${value}`);
      chips.push({ text, without: new URLSearchParams([...query].filter(([key, each]) => key !== name || each !== value)) });
    }
  }
  return chips;
}

/** All filters of an address as words. @param {URLSearchParams} query */
export function wordsOf(query) {
  const states = query.getAll('state').filter((state) => STATES.includes(state));
  return [...(states.length ? [states.join(' or ').replaceAll('_', ' ')] : []), ...chipsOf(query).map((chip) => chip.text)].join(', ');
}

/**
 * What somebody has put into the search field: an id, a label, or a name.
 * @param {string} text
 * @returns {{ id: string } | { label: string } | { name: string } | null}
 */
export function sought(text) {
  const trimmed = text.trim();
  if (!trimmed) return null;
  if (/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i.test(trimmed)) return { id: trimmed.toUpperCase() };
  if (/^[a-zA-Z0-9_-]{1,63}=[a-zA-Z0-9_.-]{0,255}$/.test(trimmed)) return { label: trimmed };
  return { name: trimmed };
}
