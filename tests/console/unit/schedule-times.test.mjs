// When schedules are due, as text: local times with their offsets, by day.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { daysOf, localTime, whenOf } from '../../../console/schedule-times.js';

/** @param {string} local */
function at(local) {
  return { due_at: '', local, starts_at: `starts ${local}` };
}

test('a local time has its offset, and seconds only if it has some', () => {
  assert.equal(localTime('2026-03-29T03:00:00+02:00'), '2026-03-29 03:00 +02:00');
  assert.equal(localTime('2026-03-29T03:00:30-03:30'), '2026-03-29 03:00:30 -03:30');
  assert.equal(localTime('2026-03-29T03:00:00Z'), '2026-03-29 03:00 Z');
});

test('a schedule is due by an expression, or each so many seconds', () => {
  assert.equal(whenOf({ cron: '0 2 * * *', every_s: null }), '0 2 * * *');
  assert.equal(whenOf({ cron: null, every_s: 5400 }), 'every 1 h 30 min');
});

test('due times are shown by day, and a change of clocks on its day', () => {
  const days = daysOf(['2026-03-28T02:00:00+01:00', '2026-03-29T03:00:00+02:00', '2026-03-30T02:00:00+02:00'].map(at));
  assert.deepEqual(days.map(({ weekday, date, times, changes }) => [weekday, date, times, changes]), [
    ['Sat', '2026-03-28', '02:00 +01:00', false],
    ['Sun', '2026-03-29', '03:00 +02:00', true],
    ['Mon', '2026-03-30', '02:00', false],
  ]);
  assert.equal(days[1]?.starts_at, 'starts 2026-03-29T03:00:00+02:00');
});

test('an hour that comes twice has both offsets, and of many times the first are shown', () => {
  const hours = ['01:00:00+02:00', '02:00:00+02:00', '02:00:00+01:00', '03:00:00+01:00', '04:00:00+01:00', '05:00:00+01:00', '06:00:00+01:00', '07:00:00+01:00'];
  const [day] = daysOf(hours.map((hour) => at(`2026-10-25T${hour}`)));
  assert.equal(day?.times, '01:00 +02:00, 02:00, 02:00 +01:00, 03:00, 04:00, 05:00');
  assert.deepEqual([day?.more, day?.changes], [2, true]);
  assert.deepEqual(daysOf([]), []);
});
