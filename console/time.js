/** Times and durations as text: in the reader's zone, or in UTC. */

import { Store } from './view.js';

const PREFERENCE = 'joblane.utc';

/** Whether times are shown in UTC. @type {Store<boolean>} */
export const utc = new Store(globalThis.localStorage?.getItem(PREFERENCE) === '1');

/** Show times in UTC or in the reader's zone, from now on. */
export function toggleUtc() {
  utc.set(!utc.value);
  localStorage.setItem(PREFERENCE, utc.value ? '1' : '0');
}

/**
 * `2026-11-23 14:03:09`, without the zone.
 * @param {string | number} at  RFC 3339, or Unix milliseconds.
 * @param {boolean} inUtc
 */
export function clock(at, inUtc) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  if (inUtc) return date.toISOString().slice(0, 19).replace('T', ' ');
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** @type {string | undefined} */
let here;

/** The name of the zone of `clock`, such as `UTC` or `Europe/Berlin`. @param {boolean} inUtc */
export function zone(inUtc) {
  here ??= Intl.DateTimeFormat().resolvedOptions().timeZone; // it takes a while, and a page has many times
  return inUtc ? 'UTC' : here;
}

/**
 * `350 ms`, `4.2 s`, `3 min 5 s`, `2 h 4 min`, `5 d 2 h`.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '';
  if (seconds < 0.9995) return `${Math.round(Math.max(0, seconds) * 1000)} ms`;
  if (seconds < 59.95) return `${Number(seconds.toFixed(1))} s`;
  const s = Math.round(seconds);
  /** @type {[number, string, number, string][]} */
  const units = [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'], [60, 'min', 1, 's']];
  for (const [size, name, smaller, smallName] of units) {
    if (s < size) continue;
    const rest = Math.floor((s % size) / smaller);
    return `${Math.floor(s / size)} ${name}${rest ? ` ${rest} ${smallName}` : ''}`;
  }
  return `${s} s`;
}

/**
 * `3 min ago`, `in 20 s`, `now`.
 * @param {string | number} at
 * @param {number} nowMs
 */
export function relative(at, nowMs) {
  const seconds = (nowMs - new Date(at).getTime()) / 1000;
  if (!Number.isFinite(seconds)) return '';
  const size = Math.abs(seconds);
  if (size < 1) return 'now';
  const text = size < 60 ? `${Math.floor(size)} s` : duration(size).split(' ').slice(0, 2).join(' ');
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** Bytes with a binary unit: `3.4 MiB`. @param {number} count */
export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let n = 0;
  while (value >= 1024 && n < units.length - 1) {
    value /= 1024;
    n += 1;
  }
  return `${n ? Number(value.toFixed(1)) : value} ${units[n]}`;
}

/** The present time in milliseconds, for relative times; moves every second while somebody looks. @type {Store<number>} */
export const now = new Store(Date.now());

if (globalThis.document) {
  setInterval(() => {
    if (!document.hidden) now.set(Date.now());
  }, 1000);
}
