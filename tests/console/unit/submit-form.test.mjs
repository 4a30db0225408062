// The form of a submission and the request that it makes.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { changesOf } from '../../../console/submission.js';
import { controlOf, EMPTY, fieldsOf, formOf, formOfType } from '../../../console/submit-form.js';

const NOW = Date.parse('2026-11-23T12:00:00Z');
const made = (change) => fieldsOf({ ...EMPTY, ...change }, true);

test('what is empty is not sent', () => {
  assert.deepEqual(made({}).fields, {});
  assert.deepEqual(made({ shell: 'echo hi' }).fields, { command: ['sh', '-c', 'echo hi'] });
  assert.deepEqual(made({ kind: 'arguments', arguments: 'python3\n\nx y\n' }).fields, { command: ['python3', '', 'x y'] });
  assert.deepEqual(made({ kind: 'type', type: 'sync' }).fields, { type: 'sync', params: {} });
});

test('fields come as the API takes them', () => {
  const { fields, wrong } = made({
    shell: 'x', name: ' n ', queue: 'bulk', priority: 'high', network: 'egress', cpus: '0.5', memory_mb: '64', timeout_s: '30', max_attempts: '2', backoff_s: '1, 2',
    run_at: '2026-11-24T10:00', env: 'A=b=c\nD= e', labels: 'team = web', other: '{"resources": {"cores": "0-1", "cpus": 9}, "requires": ["app:x"], "name": "not this"}',
  });
  assert.deepEqual(wrong, []);
  assert.deepEqual(fields, {
    name: 'n', command: ['sh', '-c', 'x'], queue: 'bulk', priority: 'high', network: 'egress', resources: { cores: '0-1', cpus: 0.5, memory_mb: 64 },
    env: { A: 'b=c', D: ' e' }, labels: { team: 'web' }, timeout_s: 30, retry: { max_attempts: 2, backoff_s: [1, 2] }, run_at: '2026-11-24T10:00:00.000Z', requires: ['app:x'],
  });
});

test('whom to notify is told apart by its form', () => {
  const arn = 'arn:aws:sns:eu-west-1:123456789012:jobs';
  const notify = (change) => made({ shell: 'x', ...change }).fields.notify;
  assert.deepEqual(notify({ notify: ' https://example.com/hook ' }), { url: 'https://example.com/hook' });
  assert.deepEqual(notify({ notify: arn, notify_on: 'started, , dead' }), { sns: arn, on: ['started', 'dead'] });
  assert.deepEqual(notify({ notify: 'eventbridge' }), { eventbridge: true });
  assert.deepEqual(notify({ notify: 'eventbridge', notify_members: 'yes' }), { eventbridge: true, members: true });
  assert.equal(notify({}), undefined);
  assert.deepEqual(made({ notify_on: 'started' }).wrong.map((each) => each.field), ['notify']);
  assert.deepEqual(made({ notify_members: 'yes' }).wrong, [{ field: 'notify', problem: 'is needed for members' }]);
});

test('what cannot be sent is told beside its field', () => {
  const { wrong } = made({ kind: 'type', params: '[1]', other: '{', cpus: 'many', env: 'A=1\nnonsense', backoff_s: '1, x' });
  assert.deepEqual(wrong.map((each) => each.field), ['other', 'params', 'cpus', 'env', 'backoff_s']);
  assert.match(wrong[3].problem, /line 2/);
});

test('an array is a number of jobs, a range of indices, or values of which each is JSON', () => {
  assert.deepEqual(made({ array: ' 100 ' }).fields, { array: { size: 100 } });
  assert.deepEqual(made({ array: '3-9', tolerate: '2', max_failures: '4' }).fields, { array: { first: 3, last: 9 }, max_failures: 4, tolerate: 2 });
  assert.deepEqual(made({ array_values: '"a"\n\n{"n": 1}' }).fields, { array: { values: ['a', { n: 1 }] } });
  // The API says that it must be one of them; here neither is lost.
  assert.deepEqual(made({ array: '2', array_values: '1' }).fields, { array: { size: 2, values: [1] } });
  const { wrong } = made({ array: '1,2', array_values: '1\na.csv' });
  assert.deepEqual(wrong.map(({ field, problem }) => [field, problem.slice(0, 19)]), [['array_values', 'line 2 must be JSON'], ['array', 'must be a number of']]);
});

test('a job fills in the form, and the form makes the same job', () => {
  for (const fields of [
    { name: 'n', command: ['sh', '-c', 'a\nb'], queue: 'q', resources: { cpus: 1, tmp_mb: 5 }, env: { A: '1' }, labels: { a: 'b' }, timeout_s: 5, retry: { max_attempts: 1, backoff_s: [5] } },
    { command: ['prog', 'a b', ''], queue: 'q', concurrency: { key: ['a', 1], max_active: 1 } },
    { command: ['x'], notify: { url: 'https://example.com/hook', on: ['started', 'dead'], members: true } },
    { command: ['x'], notify: { eventbridge: true } },
    { command: ['x'], stdin: 'a\nb\n', outputs: ['out', 'a b/*'], secret_env: { T: 'secretsmanager:x' }, resources: { cores: '0-1', io_bps: 4096 }, exit_codes: { permanent: [65, 66] }, restartable: false, mask_secrets: false },
    { command: ['x'], target: 'group:web', reply_timeout_s: 5, max_failures: 0, items: 3, heartbeat_timeout_s: 9, concurrency: { key: ['a', 1], max_active: 1 }, inputs: [{ path: 'a' }] },
    { command: ['x'], array: { size: 5 }, max_concurrency: 3, tolerate: '5 %' },
    { command: ['x'], array: { first: 1, last: 99, step: 2 }, tolerate: 0 },
    { type: 't', params: {}, array: { values: ['a.csv', { n: 1 }, 7, null] } },
    { command: ['prog', 'two\nlines'], env: { A: 'two\nlines' } },
    { type: 't', params: { a: [1] }, queue: 'q', requires: ['app:x'], deadline: '2027-01-01T00:00:00Z' },
  ]) {
    const again = fieldsOf(formOf(fields, NOW), true);
    assert.deepEqual(again, { fields, wrong: [] });
  }
  assert.deepEqual(fieldsOf(formOf({ command: ['x'], run_at: '2026-01-01T00:00:00Z' }, NOW), true).fields, { command: ['x'] });
});

test('a wrong field of the request is shown at its place in the form', () => {
  assert.equal(controlOf('command.0', EMPTY), 'shell');
  assert.equal(controlOf('resources.cpus', EMPTY), 'cpus');
  assert.equal(controlOf('retry.backoff_s.1', EMPTY), 'backoff_s');
  assert.equal(controlOf('env.PATH', EMPTY), 'env');
  assert.equal(controlOf('resources.cores', EMPTY), 'cores');
  assert.equal(controlOf('concurrency.key.0', EMPTY), 'concurrency');
  assert.equal(controlOf('inputs.0.sha256', EMPTY), 'inputs');
  assert.equal(controlOf('array', EMPTY), 'array');
  assert.equal(controlOf('array.size', EMPTY), 'array');
  assert.equal(controlOf('array.values.3.n', EMPTY), 'array_values');
  assert.equal(controlOf('tolerate', EMPTY), 'tolerate');
  assert.equal(controlOf('notify.url', EMPTY), 'notify');
  assert.equal(controlOf('notify.on.0', EMPTY), 'notify_on');
  assert.equal(controlOf('notify.members', EMPTY), 'notify_members');
});

test('a type fills in the parameters that it requires', () => {
  const schema = {
    required: ['customer', 'mode', 'items', 'deep'], $defs: { Mode: { enum: ['full', 'delta'] }, Deep: { type: 'object' } },
    properties: { customer: { type: 'string' }, mode: { $ref: '#/$defs/Mode' }, items: { type: 'array' }, deep: { $ref: '#/$defs/Deep' }, extra: { type: 'integer' } },
  };
  const { fields } = fieldsOf(formOfType('sync', schema), true);
  assert.deepEqual(fields, { type: 'sync', params: { customer: '', mode: 'full', items: [], deep: {} } });
});

test('what was changed in the form is a merge patch of what was there', () => {
  const before = { command: ['x'], queue: 'q', env: { A: '1', B: '2' }, resources: { memory_mb: 64, pids: 5 }, timeout_s: 5, retry: { max_attempts: 1, backoff_s: [5] }, deadline: '2026-01-01T00:00:00Z' };
  assert.deepEqual(changesOf(before, structuredClone(before)), {});
  const { fields } = fieldsOf({ ...formOf(before, NOW), memory_mb: '128', env: 'A=1\nC=3', timeout_s: '', queue: 'other' }, true);
  assert.deepEqual(changesOf(before, fields), {
    resources: { memory_mb: 128 }, env: { B: null, C: '3' }, timeout_s: null, queue: 'other', deadline: null,
  });
  assert.deepEqual(changesOf({ command: ['x'] }, { type: 't', params: { a: [1] } }), { command: null, type: 't', params: { a: [1] } });
  assert.deepEqual(changesOf({ params: { a: [1, 2], b: { c: 1 } } }, { params: { a: [2], b: {} } }), { params: { a: [2], b: { c: null } } });
});
