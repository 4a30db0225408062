// Reading a list page by page: how many requests, and where it goes on.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';

import { readList } from '../../../console/lists.js';

const real = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = real;
});

/** An API whose pages are these; returns the queries of the requests. @param {{ entries: number[], next: string | null }[]} pages */
function serve(...pages) {
  /** @type {Record<string, string>[]} */
  const asked = [];
  globalThis.fetch = async (url) => {
    asked.push(Object.fromEntries(new URL(String(url)).searchParams));
    return Response.json(pages[Math.min(asked.length, pages.length) - 1]);
  };
  return asked;
}

test('pages up to the number that is wanted', async () => {
  const asked = serve({ entries: [1, 2], next: 'b' }, { entries: [3], next: 'c' });
  assert.deepEqual(await readList('v1/x', { state: 'dead' }, 3), { entries: [1, 2, 3], next: 'c' });
  assert.deepEqual(asked, [{ state: 'dead', limit: '3' }, { state: 'dead', limit: '1', next: 'b' }]);
});

test('it goes on where the address says', async () => {
  const asked = serve({ entries: [4], next: null });
  await readList('v1/x', { next: 'c' }, 50);
  assert.deepEqual(asked, [{ limit: '50', next: 'c' }]);
});

test('pages without entries do not go on for ever', async () => {
  const asked = serve({ entries: [], next: 'on' });
  assert.deepEqual(await readList('v1/x', {}, 100), { entries: [], next: 'on' });
  assert.equal(asked.length, 5);
});
