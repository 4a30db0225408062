// Durations and times as text.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bytes, clock, duration, relative } from '../../../console/time.js';

test('a duration has at most two units', () => {
  const texts = [
    [-5, '0 ms'], [0, '0 ms'], [0.0004, '0 ms'], [0.35, '350 ms'], [0.9994, '999 ms'], [0.9996, '1 s'], [1, '1 s'],
    [4.24, '4.2 s'], [59.94, '59.9 s'], [59.96, '1 min'], [60, '1 min'], [185, '3 min 5 s'], [3599.6, '1 h'],
    [7440, '2 h 4 min'], [86400, '1 d'], [439_200, '5 d 2 h'],
  ];
  for (const [seconds, text] of texts) assert.equal(duration(seconds), text, `${seconds} s`);
  assert.equal(duration(Number.NaN), '');
  assert.equal(duration(Infinity), '');
});

test('a time is told from now, in both directions', () => {
  const nowMs = Date.parse('2026-11-23T12:00:00Z');
  assert.equal(relative('2026-11-23T11:59:59.500Z', nowMs), 'now');
  assert.equal(relative('2026-11-23T11:59:40Z', nowMs), '20 s ago');
  assert.equal(relative('2026-11-23T11:55:30Z', nowMs), '4 min ago');
  assert.equal(relative('2026-11-23T12:00:30Z', nowMs), 'in 30 s');
  assert.equal(relative('2026-11-23T14:30:00Z', nowMs), 'in 2 h');
  assert.equal(relative('never', nowMs), '');
});

test('the clock is in UTC or in the reader\'s zone', () => {
  assert.equal(clock('2026-11-23T14:03:09.999Z', true), '2026-11-23 14:03:09');
  const date = new Date('2026-11-23T14:03:09Z');
  assert.match(clock(date.getTime(), false), /^2026-11-2[234] \d\d:\d\d:09$/);
  assert.equal(Number(clock(date.getTime(), false).slice(11, 13)), date.getHours());
  assert.equal(clock('no time', true), 'no time');
});

test('bytes have a binary unit', () => {
  const texts = [[0, '0 B'], [1023, '1023 B'], [1024, '1 KiB'], [1536, '1.5 KiB'], [3_565_158, '3.4 MiB'], [2 ** 50, '1024 TiB']];
  for (const [count, text] of texts) assert.equal(bytes(count), text);
});
