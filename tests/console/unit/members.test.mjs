// Members of a group: ranges of indices, the squares of the grid and its keys, and failures by what they said last.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  describe, gapsOf, indicesOf, layoutOf, numberAt, numbersOf, rangesOf, sampleOf, squaresOf, statesOf, stepTo,
} from '../../../console/members.js';
import { groupFailures } from '../../../console/pages/group-map.js';

const ten = indicesOf({ members: 10 });
const odd = indicesOf({ members: 10, array: { first: 1, step: 2 } });

test('ranges of indices are numbers of members, and the other way round', () => {
  assert.deepEqual(numbersOf('3,5-7,0', ten), [0, 3, 5, 6, 7]);
  assert.equal(rangesOf([7, 5, 6, 3, 0], ten), '0,3,5-7');
  assert.deepEqual(numbersOf('1-5,19', odd), [0, 1, 2, 9]);
  assert.equal(rangesOf([0, 1, 9], odd), '1,3,19');
  assert.deepEqual([numbersOf('', ten), rangesOf([], ten)], [[], '']);
  for (const text of ['x', '3-1', '10', '5-10', '-1', '1.5']) assert.equal(numbersOf(text, ten), null, text);
  for (const text of ['0', '2', '20-21']) assert.equal(numbersOf(text, odd), null, text);
  assert.equal(describe(ten), '0 to 9');
  assert.equal(describe(odd), '1 to 19 in steps of 2');
  assert.deepEqual(statesOf({ completed: '1-7', dead: '19' }, odd), ['completed', 'completed', 'completed', 'completed', '', '', '', '', '', 'dead']);
});

test('squares of a row that have one state are one rectangle', () => {
  const layout = { side: 10, columns: 3, rows: 2 };
  const squares = squaresOf(['a', 'a', 'a', 'a', 'b'], layout);
  assert.deepEqual([...squares], [['a', 'M0 0h30v10h-30zM0 10h10v10h-10z'], ['b', 'M10 10h10v10h-10z']]);
  assert.equal(gapsOf(layout), 'M0 0v20M10 0v20M20 0v20M30 0v20M0 0h30M0 10h30M0 20h30');
  assert.equal(numberAt(15, 15, 5, layout), 4);
  for (const [x, y] of [[25, 15], [31, 5], [-1, 5], [5, -1]]) assert.equal(numberAt(x, y, 5, layout), null);
});

test('ten thousand members fit a phone and a desk, in rows of tens, as some hundred kilobytes of path at most', () => {
  assert.deepEqual(layoutOf(10_000, 350), { side: 8, columns: 40, rows: 250 });
  assert.deepEqual(layoutOf(10_000, 1000), { side: 8, columns: 120, rows: 84 });
  assert.deepEqual(layoutOf(4, 1000), { side: 24, columns: 4, rows: 1 });
  assert.deepEqual(layoutOf(3, 0), { side: 24, columns: 1, rows: 3 });
  const states = Array.from({ length: 10_000 }, (_, n) => (n % 2 ? 'completed' : 'dead'));
  assert.ok([...squaresOf(states, layoutOf(10_000, 350)).values()].join('').length < 300_000);
});

test('keys go from square to square, and stay where no row is', () => {
  assert.deepEqual(['ArrowRight', 'ArrowLeft', 'ArrowDown', 'ArrowUp', 'Home', 'End', 'PageDown', 'q'].map((key) => stepTo(12, key, 25, 10)), [13, 11, 22, 2, 0, 24, 24, null]);
  assert.deepEqual([stepTo(2, 'ArrowUp', 25, 10), stepTo(17, 'ArrowDown', 25, 10), stepTo(0, 'ArrowLeft', 25, 10), stepTo(24, 'ArrowRight', 25, 10)], [2, 17, 0, 24]);
});

test('a sample is spread over all that failed', () => {
  assert.deepEqual(sampleOf([1, 2, 3], 5), [1, 2, 3]);
  assert.deepEqual(sampleOf(Array.from({ length: 1000 }, (_, n) => n), 4), [0, 250, 500, 750]);
});

test('failures that said the same but for numbers are together, the most first', () => {
  const failed = (index, line, reason = 'exit code 3 after 0.1 s') => ({ member: { index, reason }, line });
  const groups = groupFailures([failed(1, 'no space on disk 7'), failed(2, ''), failed(3, 'no space on disk 9')]);
  assert.deepEqual(groups.map(({ failures }) => failures.map(({ member }) => member.index)), [[1, 3], [2]]);
  assert.equal(groups[1].pattern, 'exit code 3 after # s');
});
