// Sums, rates and troubles of queues, and the lines of their charts.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { linesOf } from '../../../console/queue-charts.js';
import { activityOf, backlogS, oldest, perMinute, retirement, total, troubles } from '../../../console/queue-figures.js';

const count = (jobs) => ({ jobs, items: jobs });

function queue({ lanes = [{}], settings = {}, started = 0, failed = 0, completed = 0, retired = null } = {}) {
  return {
    name: 'q',
    retired,
    lanes: lanes.map((lane) => ({ lane: 'default', visible: 0, in_flight: 0, delayed: 0, oldest_message_s: null, oldest_message_at: null, ...lane })),
    settings: { run_jobs: true, threads: null, threads_declared: 4, cluster_threads: null, version: 0, changed_at: null, changed_by: null, ...settings },
    activity: [1, 5, 60].map((minutes) => ({
      minutes, since: '2026-11-23T12:00:00Z', span_s: minutes * 60, submitted: count(0), started: count(started),
      completed: count(completed), failed: count(failed), retried: count(0), mean_wait_s: null,
    })),
  };
}

test('figures of lanes are added up', () => {
  const one = queue({ lanes: [{ visible: 2 }, { visible: 3 }, { visible: 0 }] });
  assert.equal(total(one, 'visible'), 5);
  assert.equal(activityOf(one, 5)?.span_s, 300);
  assert.equal(activityOf(one, 7), null);
});

test('the age of the oldest job that waits is shown where one is known', () => {
  const age = (jobs) => oldest({ jobs });
  assert.deepEqual([undefined, null, { oldest: null }, { oldest: { age_s: 185 } }].map(age), ['–', '–', '–', '3 min 5 s']);
});

test('a rate has the digits that matter', () => {
  const texts = [[0, 60, '0'], [1, 3600, '0.02'], [1, 36_000, '< 0.01'], [5, 60, '5'], [125, 600, '12.5'], [100_000, 60, '100,000'], [1, 0, '–']];
  for (const [jobs, seconds, text] of texts) assert.equal(perMinute(jobs, seconds), text, `${jobs} in ${seconds} s`);
});

test('troubles say what keeps a queue from its work', () => {
  assert.deepEqual(troubles(queue()), []);
  assert.deepEqual(troubles(queue({ lanes: [{ visible: 1 }], started: 1 })), []);
  assert.deepEqual(troubles(queue({ lanes: [{ visible: 1, in_flight: 1 }] })), []);
  assert.deepEqual(troubles(queue({ lanes: [{ visible: 1 }] })), ['jobs wait, none started in 5 min']);
  assert.deepEqual(troubles(queue({ lanes: [{ visible: 1 }], settings: { run_jobs: false } })), ['jobs wait for it to be resumed']);
  assert.deepEqual(troubles(queue({ settings: { cluster_threads: 0 } })), ['limited to 0 jobs']);
  assert.deepEqual(troubles(queue({ settings: { threads: 0 } })), ['limited to 0 jobs']);
  assert.deepEqual(troubles(queue({ failed: 3, completed: 2 })), ['more than half of the jobs failed in 60 min']);
});

test('a chart shows rates per minute of complete points only', () => {
  const point = (minute, started, mean_wait_s) => ({
    at: new Date(minute * 60_000).toISOString(), submitted: 0, started, completed: 0, failed: 0, retried: 0, mean_wait_s,
  });
  const { at, rates, waits } = linesOf({
    queue: 'q', span: '24h', step_s: 300, points: [point(0, 10, 1.23456), point(5, 2, null), point(10, 4, 9)], complete_until: new Date(14 * 60_000).toISOString(),
  });
  assert.deepEqual(at, [0, 300]);
  assert.deepEqual(rates.find((line) => line.name === 'Started')?.values, [2, 0.4]);
  assert.deepEqual(waits[0]?.values, [1.235, null]);
});

test('a backlog is the time until what waits has started, if anything starts', () => {
  assert.equal(backlogS(queue({ lanes: [{ visible: 30 }], started: 10 })), 900);
  assert.equal(backlogS(queue({ lanes: [{ visible: 30 }] })), null);
  assert.equal(backlogS(queue({ started: 10 })), null);
});

test('a retired queue says what becomes of its jobs', () => {
  const to = (move) => retirement(queue({ retired: { moves_to: 'new', move } }));
  const move = { moved: 1200, kept: 0, ended_at: null, next_at: null };
  assert.equal(retirement(queue()), '');
  assert.equal(retirement(queue({ retired: { moves_to: null, move: null } })), 'takes no more jobs; those that it has run');
  assert.equal(to(null), 'takes no more jobs; those that wait move to queue new in a minute');
  assert.equal(to(move), 'takes no more jobs; those that wait move to queue new: 1,200 moved');
  assert.equal(to({ ...move, kept: 3 }), 'takes no more jobs; those that wait move to queue new: 1,200 moved, 3 kept because new does not take them');
});
