/** When schedules are due, as text. */

import { duration } from './time.js';

/** @typedef {import('./types').NextTime} NextTime */

/** Times of a day that are shown. */
const MOST = 6;

/**
 * @typedef {object} Day
 * @property {string} date  In the schedule's zone.
 * @property {string} weekday
 * @property {string} times  The first ones, each with its offset where it is another.
 * @property {number} more  How many are not shown.
 * @property {boolean} changes  Whether the offset changes on this day, or since the day before that is shown.
 * @property {string} starts_at  When the first starts.
 */

/** `2026-03-29 03:00 +02:00` of `2026-03-29T03:00:00+02:00`. @param {string} local */
export function localTime(local) {
  const [date, clock, offset] = split(local);
  return `${date} ${clock} ${offset}`;
}

/** `0 2 * * *` or `every 5 min`. @param {{ cron: string | null, every_s: number | null }} schedule */
export function whenOf({ cron, every_s }) {
  return cron ?? `every ${duration(every_s ?? 0)}`;
}

/** Due times by day, in their order. @param {readonly NextTime[]} times @returns {Day[]} */
export function daysOf(times) {
  /** @type {Map<string, NextTime[]>} */
  const found = new Map();
  for (const each of times) {
    const [date] = split(each.local);
    found.set(date, [...(found.get(date) ?? []), each]);
  }
  let last = '';
  return [...found].map(([date, due]) => {
    let changes = false;
    const shown = due.map(({ local }) => {
      const [, clock, offset] = split(local);
      const isNew = offset !== last;
      if (isNew && last) changes = true;
      last = offset;
      return isNew ? `${clock} ${offset}` : clock;
    });
    return {
      date,
      weekday: new Date(`${date}T00:00Z`).toLocaleDateString('en', { weekday: 'short', timeZone: 'UTC' }),
      times: shown.slice(0, MOST).join(', '),
      more: Math.max(0, due.length - MOST),
      changes,
      starts_at: due[0]?.starts_at ?? '',
    };
  });
}

/** Date, time of day without seconds that are zero, and offset. @param {string} local @returns {[string, string, string]} */
function split(local) {
  const [date = '', rest = ''] = local.split('T');
  const offset = /(?:[+-][0-9:]+|Z)$/.exec(rest)?.[0] ?? '';
  return [date, rest.slice(0, rest.length - offset.length).replace(/(:\d\d):00$/, '$1'), offset];
}
