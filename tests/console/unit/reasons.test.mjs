// Reasons of dead jobs are grouped without what differs from job to job.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { groupByReason, patternOf } from '../../../console/reasons.js';

test('a pattern leaves out numbers, ids, times and addresses, and keeps what tells failures apart', () => {
  const patterns = [
    ['exit code 3 after 0.0 s (attempt 1 of 1)', 'exit code 3 after # s (attempt # of #)'],
    ['signal 9 after 12.34 s; exit code 137', 'signal 9 after # s; exit code 137'],
    ['the API answered status 503 in 1,024 ms', 'the API answered status 503 in # ms'],
    ['job 01M83CD6PXFHE44W70P5DPYP80 on i-0123456789abcdef0 at 2026-11-23T05:00:00.123Z', 'job <id> on <id> at <time>'],
    ['request 6f9619ff-8b86-d011-b42d-00c04fc964ff from 10.0.1.7:4600', 'request <id> from <address>'],
    ['object 0xDEADBEEF1 sha 9f86d081884c7d65', 'object <id> sha <id>'],
    ['defaced facade', 'defaced facade'],
    ['row 7\n\n  of 9', 'row # of #'],
    ['GET /v1/items/7 of s3://b/part-007.csv', 'GET /v1/items/# of s3://b/part-#.csv'],
    ['', ''],
  ];
  for (const [reason, pattern] of patterns) assert.equal(patternOf(reason), pattern);
  assert.equal(patternOf('x'.repeat(5000)).length, 301);
});

test('a reason of any length and form takes no time', () => {
  const start = performance.now();
  for (const bad of ['0'.repeat(300_000), 'a1'.repeat(150_000), '1.'.repeat(150_000), '-'.repeat(300_000)]) patternOf(bad);
  assert.ok(performance.now() - start < 200);
});

test('groups are counted, the largest first, with their span', () => {
  const job = (reason, ended_at) => ({ reason, ended_at, created_at: '2026-01-01T00:00:00Z' });
  const groups = groupByReason([job('exit code 1 after 2 s', '2026-11-23T03:00:00Z'), job('out of memory', null), job('exit code 1 after 5 s', '2026-11-23T01:00:00Z')]);
  assert.deepEqual(groups.map((group) => [group.pattern, group.jobs.length, group.newest, group.oldest]), [
    ['exit code 1 after # s', 2, '2026-11-23T03:00:00Z', '2026-11-23T01:00:00Z'],
    ['out of memory', 1, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z'],
  ]);
});
