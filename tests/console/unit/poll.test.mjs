// How long the page waits before it asks again.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError } from '../../../console/api.js';
import { delayMs } from '../../../console/poll.js';

const LOST = new ApiError(0, {});

test('without a failure it is the interval', () => {
  assert.equal(delayMs(1000, 0, null), 1000);
  assert.equal(delayMs(10_000, 0, null), 10_000);
});

test('failures double it up to 30 s', () => {
  const waits = [1, 2, 3, 4, 5, 6, 100].map((failures) => delayMs(1000, failures, LOST));
  assert.deepEqual(waits, [2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
});

test('what is read once is tried again after 2 s', () => {
  assert.equal(delayMs(0, 1, LOST), 2000);
});

test('an API that asks for patience gets it', () => {
  assert.equal(delayMs(1000, 1, new ApiError(429, {}, 7)), 7000);
  assert.equal(delayMs(1000, 1, new ApiError(503, {}, 120)), 120_000);
});
