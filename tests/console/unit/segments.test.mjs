// How segments of keys are written and read.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseSegments, showSegments } from '../../../console/segments.js';

/** @param {unknown[]} segments @param {string} text */
function both(segments, text) {
  const json = JSON.stringify(segments);
  assert.equal(showSegments(json), text);
  assert.equal(parseSegments(text), json);
}

test('texts and numbers', () => {
  both(['customer', 'acme'], 'customer / acme');
  both(['customer', 7], 'customer / 7');
  both(['customer', '7'], 'customer / "7"');
  both([-1.5, '1e3', '007'], '-1.5 / "1e3" / 007');
});

test('texts with slashes, quotes, brackets and spaces at their ends', () => {
  both(['a/b', 'say "hi"', '[x]', ' x '], '"a/b" / "say \\"hi\\"" / "[x]" / " x "');
  both([''], '""');
  both(['of two words'], 'of two words');
});

test('spaces around a slash may be left out, and JSON stays as it is', () => {
  assert.equal(parseSegments('a/b'), '["a","b"]');
  assert.equal(parseSegments(' ["a", 7] '), '["a", 7]');
  assert.equal(parseSegments('  '), '');
});

test('an address that is no JSON array is shown as it is', () => {
  assert.equal(showSegments('x'), 'x');
  assert.equal(showSegments('{"a":1}'), '{"a":1}');
  assert.equal(showSegments(null), '');
});
