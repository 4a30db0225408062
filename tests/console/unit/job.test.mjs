// A job's bars, actions, cost, links and submission.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { dollars, estimate } from '../../../console/cost.js';
import { actionsOf, ENDED, placed, STATES } from '../../../console/job-actions.js';
import { fill, isSafe } from '../../../console/links.js';
import { limitsOf, specificationOf } from '../../../console/submission.js';
import { rows, totals } from '../../../console/timeline.js';

const step = (second, state, attempt = 0) => ({ state, at: new Date(second * 1000).toISOString(), attempt, reason: '', agent: null });
const shapes = (all) => all.map((row) => [row.attempt, row.bars.map((bar) => `${bar.kind} ${(bar.toMs - bar.fromMs) / 1000}`)]);

test('each attempt has a row: its wait, its run, and the wait after it', () => {
  const all = rows([step(0, 'pending'), step(3, 'active', 1), step(5, 'retry', 1), step(9, 'active', 2), step(10, 'completed', 2)], 99_000);
  assert.deepEqual(shapes(all), [[1, ['queue 3', 'run 2', 'backoff 4']], [2, ['run 1']]]);
  assert.deepEqual(totals(all), { queue: 3, run: 3, backoff: 4, wait: 0 });
});

test('an attempt that was handed back or restarted has its number again, in a row of its own', () => {
  const steps = [step(0, 'pending'), step(1, 'active', 1), step(2, 'pending', 0), step(4, 'active', 1), step(5, 'dead', 1), step(8, 'pending', 0), step(9, 'active', 1)];
  assert.deepEqual(shapes(rows(steps, 10_000)), [[1, ['queue 1', 'run 1']], [1, ['queue 2', 'run 1']], [1, ['queue 1', 'run 1']]]);
});

test('a job that has not ended goes on until now', () => {
  assert.deepEqual(shapes(rows([step(0, 'scheduled'), step(2, 'pending')], 5000)), [[1, ['wait 2', 'queue 3']]]);
  assert.deepEqual(shapes(rows([step(0, 'pending'), step(1, 'active', 1), step(4, 'pending', 1)], 5000)), [[1, ['queue 1', 'run 3']], [2, ['queue 1']]]);
});

const job = (state, more = {}) => ({
  state, group: null, members: null, array: null, target: null, deadline: null, hidden: false, cancel_requested: null, restartable: true, attempt: 1, ...more,
});
const all = () => true;

test('only what the state allows is offered', () => {
  assert.deepEqual(actionsOf(job('pending'), all), ['edit', 'cancel', 'again']);
  assert.deepEqual(actionsOf(job('blocked', { group: 'g' }), all), ['cancel', 'again']);
  assert.deepEqual(actionsOf(job('active'), all), ['cancel', 'again']);
  assert.deepEqual(actionsOf(job('active', { cancel_requested: 'x' }), all), ['again']);
  assert.deepEqual(actionsOf(job('dead'), all), ['retry', 'dismiss', 'resubmit', 'again', 'hide', 'delete']);
  assert.deepEqual(actionsOf(job('failed', { group: 'g' }), all), ['retry', 'again']);
  assert.deepEqual(actionsOf(job('completed', { hidden: true }), all), ['resubmit', 'again', 'unhide', 'delete']);
  assert.deepEqual(actionsOf(job('completed', { deadline: '2020-01-01T00:00:00Z' }), all), ['again', 'hide', 'delete']);
  assert.ok(actionsOf(job('completed', { members: 3 }), all, true).includes('retry'));
  assert.deepEqual(actionsOf(job('dead', { restartable: false }), all), ['dismiss', 'resubmit', 'again', 'hide', 'delete']);
  assert.deepEqual(actionsOf(job('dead', { deadline: '2020-01-01T00:00:00Z' }), all), ['dismiss', 'again', 'hide', 'delete']);
  for (const state of ENDED) assert.ok(!actionsOf(job(state), all).includes('cancel'), state);
  assert.equal(STATES.length, 16);
});

test('only what the scopes allow is offered', () => {
  assert.deepEqual(actionsOf(job('dead'), (scope) => scope === 'jobs.read'), []);
  assert.deepEqual(actionsOf(job('pending'), (scope) => scope === 'jobs.cancel'), ['cancel']);
  assert.deepEqual(actionsOf(job('dead'), (scope) => scope === 'jobs.submit'), ['retry', 'resubmit', 'again']);
  assert.deepEqual(actionsOf(job('dead'), (scope) => scope === 'admin.mutate'), ['retry', 'dismiss']);
});

test('what is done most in a state has a button, and the rest stands in a menu', () => {
  const places = (one) => placed(actionsOf(one, all), one);
  assert.deepEqual(places(job('pending')), [['edit', 'cancel'], ['again']]);
  assert.deepEqual(places(job('active')), [['cancel'], ['again']]);
  assert.deepEqual(places(job('dead')), [['retry', 'again'], ['dismiss', 'resubmit', 'hide', 'delete']]);
  assert.deepEqual(places(job('completed')), [['resubmit', 'again'], ['hide', 'delete']]);
  assert.deepEqual(placed([], job('dead')), [[], []]);
});

test('a cost is a range of plain figures', () => {
  const price = { usd_per_slot_hour_min: 0.009, usd_per_slot_hour_max: 0.0145 };
  assert.equal(estimate(3600, price), '$0.0090 to $0.015');
  assert.equal(estimate(0.1, price), 'below $0.000001');
  assert.equal(estimate(3600, { usd_per_slot_hour_min: 2, usd_per_slot_hour_max: 2 }), '$2.00');
  assert.equal(dollars(0), '$0');
  assert.equal(dollars(0.000012), '$0.000012');
});

test('a link holds values as one part of an address, and none without its values', () => {
  assert.equal(fill('https://x.example/?q={job_id}', { job_id: 'a&b=/#' }), 'https://x.example/?q=a%26b%3D%2F%23');
  assert.equal(fill('https://x.example/{type}', { type: null }), null);
  assert.equal(fill('https://x.example/{nonsense}', {}), null);
  assert.equal(fill('javascript:alert({job_id})', { job_id: '1' }), null);
  assert.ok(isSafe('http://localhost:3000/x'));
  for (const bad of ['http://example.com', 'data:text/html,x', '//example.com', 'x']) assert.ok(!isSafe(bad), bad);
});

test('limits are those that apply, and say which nobody asked for', () => {
  const limits = { memory_mb: 512, cpus: 2, cores: null, pids: 1024, io_bps: null, tmp_mb: 256, disk_mb: null };
  assert.equal(limitsOf({ limits, resources: { cpus: 2, memory_mb: null } }), 'memory_mb 512 (default, on agents that can limit it), cpus 2, pids 1024 (default), tmp_mb 256 (default)');
});

test('a specification leaves out what is the default', () => {
  const fields = specificationOf({
    name: 'n', type: null, params: null, command: ['sh', '-c', 'x'], queue: 'default', priority: 'default', network: 'none', env: {},
    resources: { cpus: null, memory_mb: 64 }, timeout_s: 600, restartable: true, retry: { max_attempts: 3, backoff_s: [5, 30, 120, 600, 1800] }, items: 1, labels: { a: 'b' }, requires: [],
  });
  assert.deepEqual(fields, { name: 'n', command: ['sh', '-c', 'x'], queue: 'default', resources: { memory_mb: 64 }, labels: { a: 'b' } });
  assert.deepEqual(specificationOf({ type: 'sync', params: null, command: ['joblane-fetch'] }), { type: 'sync', params: {} });
});
