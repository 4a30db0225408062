// What the overview says first.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { attention, busiest } from '../../../console/queue-figures.js';

const summary = (change = {}) => ({
  caller: { kind: 'person', name: 'ada', tenant: 'acme', role: 'reader', scopes: ['jobs.read'] }, now: '', links: [], prices: {}, version: '', deployment: '',
  jobs: { counted_at: '', by_state: {} }, limits: [], agents: { alive: 1, slots: 4, running: 0, free: 4, troubled: 0, cordoned: 0, more: false, lacks: {} }, ...change,
});
const queue = (name, { visible = 0, in_flight = 0, run_jobs = true, changed_by = null, started = 0 } = {}) => ({
  name, lanes: [{ lane: 'default', visible, in_flight, delayed: 0, oldest_message_s: null, oldest_message_at: null }],
  settings: { run_jobs, threads: null, threads_declared: 1, cluster_threads: null, version: 0, changed_at: null, changed_by, may_change: false },
  activity: [5, 60].map((minutes) => ({ minutes, since: '', span_s: 1, submitted: { jobs: 0 }, started: { jobs: started }, completed: { jobs: 0 }, failed: { jobs: 0 }, retried: { jobs: 0 }, mean_wait_s: null })),
});
const texts = (...args) => attention(...args).map(({ tone, text, to }) => [tone, text, to]);

test('nothing is said if nothing needs attention', () => {
  assert.deepEqual(attention(summary(), [queue('a', { visible: 3, in_flight: 1 })]), []);
  assert.deepEqual(attention(summary({ jobs: null }), []), []);
});

test('no agents is the worst, and says what waits', () => {
  const none = { ...summary().agents, alive: 0, slots: 0, free: 0 };
  assert.deepEqual(texts(summary({ agents: none }), [queue('a', { visible: 1, in_flight: 1 })]), [['bad', 'No agent is alive: no job can start, and 1 message waits.', null]]);
  const operator = { ...summary().caller, scopes: ['platform.read'] };
  assert.equal(attention(summary({ agents: none, caller: operator }), [])[0]?.to, '#/agents');
});

test('full slots, trouble, dead and blocked jobs are told with where to go', () => {
  const agents = { ...summary().agents, free: 0, troubled: 2 };
  const jobs = { counted_at: '', by_state: { dead: 1, blocked: 1200 } };
  assert.deepEqual(texts(summary({ agents, jobs }), [queue('a', { visible: 2, in_flight: 4 })]), [
    ['bad', '1 job is dead: retry or dismiss.', '#/jobs?state=dead'],
    ['warn', 'No slot is free (0 of 4 in use), and 2 messages wait.', null],
    ['warn', '2 agents are in trouble.', null],
    ['warn', '1,200 jobs wait for a condition.', '#/jobs?state=blocked'],
  ]);
});

test('a paused queue says by whom, and one that starts nothing is bad', () => {
  assert.deepEqual(texts(summary(), [queue('p', { run_jobs: false, changed_by: 'ada', visible: 1 }), queue('s', { visible: 1 })]), [
    ['bad', 'Queue s: jobs wait, none started in 5 min.', '#/queues/s'],
    ['warn', 'Queue p: paused by ada; jobs wait for it to be resumed.', '#/queues/p'],
  ]);
});

test('what no live agent of a queue can give is told while jobs are pending', () => {
  const agents = { ...summary().agents, lacks: { a: ['cpus', 'memory_mb'], b: ['egress'] } };
  const jobs = { counted_at: '', by_state: { pending: 1 } };
  const queues = [queue('a', { in_flight: 1 }), queue('b'), queue('c', { in_flight: 1 })];
  assert.deepEqual(texts(summary({ agents, jobs }), queues), [
    ['warn', 'No live agent of queue a can give cpus, memory_mb: jobs that ask for it wait.', '#/jobs?state=pending&queue=a'],
  ]);
  assert.deepEqual(texts(summary({ agents }), queues), []);
  assert.equal(texts(summary({ agents, jobs: null }), queues).length, 1);
});

test('a limit is told from nine tenths on', () => {
  const limits = [['low', 89], ['near', 90], ['full', 100], ['unknown', null]].map(([limit, current]) => ({ limit, allowed: 100, current }));
  assert.deepEqual(texts(summary({ limits }), []), [['bad', 'Limit full: 100 of 100 in use.', '#/settings'], ['warn', 'Limit near: 90 of 100 in use.', '#/settings']]);
});

test('the busiest queue is that with the most starts', () => {
  assert.equal(busiest([queue('a'), queue('b', { started: 3 }), queue('c', { started: 1 })]), 'b');
  assert.equal(busiest([queue('a'), queue('b')]), 'a');
  assert.equal(busiest([]), null);
});
