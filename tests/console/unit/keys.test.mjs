// Which shortcut a key means.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { match } from '../../../console/keys.js';

/** @param {string} keys @param {string} [what] */
const shortcut = (keys, what = keys) => ({ keys, what, run: () => {} });
const ALL = [shortcut('g j'), shortcut('g g'), shortcut('/'), shortcut('j'), shortcut('x')];

/** @param {string} text  Keys with spaces. */
function typed(text, all = ALL) {
  let pending = '';
  const found = [];
  for (const key of text.split(' ')) {
    const result = match(all, pending, key);
    pending = result.pending;
    if (result.found) found.push(result.found.what);
  }
  return found;
}

test('single keys and sequences', () => {
  assert.deepEqual(typed('/'), ['/']);
  assert.deepEqual(typed('j j x'), ['j', 'j', 'x']);
  assert.deepEqual(typed('g j'), ['g j']);
  assert.deepEqual(typed('g g'), ['g g']);
  assert.deepEqual(typed('g j j'), ['g j', 'j']);
});

test('a key that no sequence goes on with counts for itself', () => {
  assert.deepEqual(typed('g x'), ['x']);
  assert.deepEqual(typed('g q j'), ['j']);
  assert.deepEqual(typed('q'), []);
});

test('of two shortcuts with one key the one of the latest component counts', () => {
  assert.deepEqual(typed('r', [shortcut('r', 'of the page'), shortcut('r', 'of the row')]), ['of the row']);
});
