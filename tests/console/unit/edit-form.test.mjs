// The form that edits a job, and the merge patch that it makes.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { controlOf, formOf, patchOf } from '../../../console/edit-form.js';

const JOB = {
  queue: 'default', priority: 'default', deadline: '2026-11-24T10:00:00.500Z', timeout_s: 600, labels: { a: '1', b: '2' },
  resources: { cpus: null, memory_mb: 256, pids: null },
};
const first = formOf(JOB, true);
const made = (change) => patchOf(first, { ...first, ...change }, true);

test('the form has what the job has', () => {
  assert.deepEqual(first, { queue: 'default', priority: 'default', deadline: '2026-11-24T10:00:00', timeout_s: '600', labels: 'a=1\nb=2', memory_mb: '256', cpus: '' });
  assert.equal(formOf({ ...JOB, deadline: null }, true).deadline, '');
});

test('only what was changed is sent, and what was emptied is removed', () => {
  assert.deepEqual(made({}), { patch: {}, wrong: [] });
  assert.deepEqual(made({ queue: 'bulk', priority: 'high' }).patch, { queue: 'bulk', priority: 'high' });
  assert.deepEqual(made({ deadline: '', memory_mb: '', cpus: '0.5' }).patch, { deadline: null, resources: { memory_mb: null, cpus: 0.5 } });
  assert.deepEqual(made({ deadline: '2026-11-25T00:00' }).patch, { deadline: '2026-11-25T00:00:00.000Z' });
  assert.deepEqual(made({ labels: 'b = 3\n\nc=', timeout_s: '30' }).patch, { labels: { a: null, b: '3', c: '' }, timeout_s: 30 });
  assert.deepEqual(made({ labels: ' ' }).patch, { labels: { a: null, b: null } });
});

test('what cannot be sent is told beside its field', () => {
  const { wrong } = made({ timeout_s: '', memory_mb: 'much', labels: 'nonsense', deadline: 'soon' });
  assert.deepEqual(wrong.map((each) => each.field), ['deadline', 'timeout_s', 'memory_mb', 'labels']);
});

test('a wrong field of the request is shown at its place in the form', () => {
  assert.equal(controlOf('queue'), 'queue');
  assert.equal(controlOf('resources.cpus'), 'cpus');
  assert.equal(controlOf('labels.a b'), 'labels');
  assert.equal(controlOf('resources.pids'), '');
  assert.equal(controlOf('network'), '');
});
