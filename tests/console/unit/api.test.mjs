// Paths of requests, and what an error says.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError, call, isPlain, path } from '../../../console/api.js';

test('values in a path are encoded', () => {
  assert.equal(path`v1/jobs/${'01J'}/logs`, 'v1/jobs/01J/logs');
  assert.equal(path`v1/agents/${'a/b?c#d'}`, 'v1/agents/a%2Fb%3Fc%23d');
  assert.equal(path`v1/health`, 'v1/health');
  assert.equal(path`v1/keys/${'command'}/${'x y'}`, 'v1/keys/command/x%20y');
});

test('a name that would be another path is not sent', async () => {
  for (const name of ['01J', 'web-1_a.b', 'app:billing', 'policy.x']) assert.ok(isPlain(path`v1/jobs/${name}/why`), name);
  for (const name of ['01J/logs', '..', '.', '', 'a?b', 'a#b', '%2e', 'x y', 'é']) {
    assert.ok(!isPlain(path`v1/jobs/${name}/why`), name);
    await assert.rejects(call('GET', path`v1/jobs/${name}`), { status: 404, message: 'Nothing has such a name.' });
  }
});

test('an error says what the API says', () => {
  const problem = { title: 'Bad Request', detail: 'the queue is unknown', instance: 'req-1', errors: [{ field: 'queue', problem: 'is unknown' }] };
  const error = new ApiError(400, problem);
  assert.equal(error.message, 'the queue is unknown');
  assert.equal(error.requestId, 'req-1');
  assert.deepEqual(error.errors, problem.errors);
  assert.equal(new ApiError(403, { message: 'Forbidden' }).message, 'Forbidden');
  assert.equal(new ApiError(502, {}).message, 'status 502');
});
