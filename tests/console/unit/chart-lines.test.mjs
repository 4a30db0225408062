// Axes and lines of charts.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { linePath, nearest, timeTicks, valueTicks } from '../../../console/chart-lines.js';

test('marks of values are round, begin at 0 and reach the highest value', () => {
  const cases = [
    [0, true, [0, 1]], [1, true, [0, 1]], [3, true, [0, 1, 2, 3]], [22.7, true, [0, 10, 20, 30]], [20, true, [0, 5, 10, 15, 20]],
    [1_234_567, true, [0, 500_000, 1_000_000, 1_500_000]], [0.07, false, [0, 0.02, 0.04, 0.06, 0.08]], [0.3, false, [0, 0.1, 0.2, 0.3]], [0, false, [0, 0.5]],
  ];
  for (const [high, whole, ticks] of cases) assert.deepEqual(valueTicks(high, 4, whole), ticks, `${high}`);
});

test('marks of values are few for any value', () => {
  for (let high = 1e-6; high < 1e12; high *= 1.37) {
    const ticks = valueTicks(high, 4);
    assert.ok(ticks.length >= 2 && ticks.length <= 6 && (ticks.at(-1) ?? 0) >= high * (1 - 1e-9), `${high}: ${ticks}`);
  }
});

test('marks of time are full minutes and hours, with the day where one begins', () => {
  const at = (text) => Date.parse(text) / 1000;
  assert.deepEqual(
    timeTicks(at('2026-11-22T23:47:00Z'), at('2026-11-23T00:46:00Z'), 6, true).map(({ time, day }) => [time, day]),
    [['23:50', '2026-11-22'], ['00:00', '2026-11-23'], ['00:10', ''], ['00:20', ''], ['00:30', ''], ['00:40', '']],
  );
  assert.deepEqual(timeTicks(at('2026-11-22T05:10:00Z'), at('2026-11-23T05:05:00Z'), 6, true).map(({ time }) => time), ['08:00', '12:00', '16:00', '20:00', '00:00', '04:00']);
  assert.equal(timeTicks(at('2026-11-22T05:00:00Z'), at('2026-11-22T06:00:00Z'), 3, true).length, 3);
});

test('a line has gaps, and a lone point is a dot', () => {
  const y = (value) => 100 - value;
  assert.equal(linePath([0, 10, 20], [1, 2, 3], y), 'M0 99L10 98L20 97');
  assert.equal(linePath([0, 10, 20, 30, 40], [1, null, 3, null, 5.04], y), 'M0 99h.01M20 97h.01M40 95h.01');
  assert.equal(linePath([0, 10], [null, null], y), '');
  assert.equal(linePath([], [], y), '');
});

test('the nearest point is found', () => {
  assert.deepEqual([nearest([0, 10, 20], -5), nearest([0, 10, 20], 14), nearest([0, 10, 20], 16), nearest([], 3)], [0, 1, 2, 0]);
});
