// Records of output as lines, and the search in them.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BLOCK, bytesOf, cut, LogLines, LONGEST, MOST, search } from '../../../console/log-lines.js';

let seq = 0;
const record = (content, stream = 'stdout', epoch = 1) => {
  seq += 1;
  const data = typeof content === 'string' ? { text: content } : { base64: Buffer.from(content).toString('base64') };
  return { epoch, attempt: 1, seq, stream, time: '2026-11-23T05:00:00.000Z', ...data };
};
const made = (...records) => {
  const lines = new LogLines();
  lines.add(records);
  return lines;
};
const texts = (lines) => lines.blocks.flatMap((block) => block.lines.map((line) => line.text));

test('records are lines, whatever is in one of them', () => {
  assert.deepEqual(texts(made(record('one\n'), record('two\nthree\n'), record('four'))), ['one', 'two', 'three', 'four']);
  assert.deepEqual(texts(made(record('a\r\n'), record('\n'), record('b\n'))), ['a', '', 'b']);
});

test('a line that has not ended goes on with the next record of its stream', () => {
  const lines = made(record('10%'), record('oops\n', 'stderr'), record('\r100%'), record('\n'), record('next\n'));
  assert.deepEqual(texts(lines), ['100%', 'oops', 'next']);
  assert.deepEqual(lines.blocks[0].lines.map((line) => line.stream), ['stdout', 'stderr', 'stdout']);
});

test('what a later claim of the same attempt writes begins with a line of its own', () => {
  assert.deepEqual(texts(made(record('cut'), record('again\n', 'stdout', 2))), ['cut', 'again']);
});

test('bytes that are not UTF-8 are replaced, and a character may be in two records', () => {
  assert.deepEqual(texts(made(record([0x62, 0xff, 0x0a]))), ['b�']);
  assert.deepEqual(texts(made(record([0x61, 0xc3]), record([0xa4, 0x0a]))), ['aä']);
  assert.deepEqual([...bytesOf(record([0xff, 0x00]))], [0xff, 0x00]);
  assert.deepEqual([...bytesOf(record('ä'))], [0xc3, 0xa4]);
});

test('a very long line is broken, and its text is not', () => {
  const long = 'x'.repeat(2 * LONGEST + 5);
  const lines = made(record(`${long}\n`), record('y\n'));
  assert.deepEqual(texts(lines).map((line) => line.length), [LONGEST, LONGEST, 5, 1]);
  assert.equal(lines.text(), `${long}\ny\n`);
});

test('only the blocks that change get a new version', () => {
  const lines = made(...Array.from({ length: BLOCK + 1 }, (_, n) => record(`${n}\n`)));
  const versions = lines.blocks.map((block) => block.version);
  lines.add([record('more\n')]);
  assert.equal(lines.blocks[0].version, versions[0]);
  assert.notEqual(lines.blocks[1].version, versions[1]);
});

test('of very many lines the first ones go', () => {
  const lines = made(...Array.from({ length: MOST + 2 * BLOCK }, (_, n) => record(`${n}\n`)));
  assert.ok(lines.count <= MOST + BLOCK);
  assert.equal(lines.read, MOST + 2 * BLOCK);
  assert.equal(texts(lines)[0], String(lines.dropped));
});

test('a search finds all places, without regard to case, and takes no pattern', () => {
  const [block] = made(record('Error: error\n'), record('fine\n'), record('a.b axb\n')).blocks;
  const result = search(block, 'error');
  assert.equal(result.count, 2);
  assert.deepEqual(result.found.get(1), [[0, 5], [7, 12]]);
  assert.equal(search(block, 'a.b').count, 1);
  assert.equal(search(block, 'a.b'), search(block, 'a.b'));
});

test('parts are cut at what was found, across their borders', () => {
  const parts = [{ text: 'abc', look: 't-red' }, { text: 'def', look: '' }];
  assert.deepEqual(cut(parts, [[1, 4]]), [
    { text: 'a', look: 't-red', range: -1 }, { text: 'bc', look: 't-red', range: 0 },
    { text: 'd', look: '', range: 0 }, { text: 'ef', look: '', range: -1 },
  ]);
  assert.equal(cut(parts, [[0, 1], [5, 6]]).map((piece) => piece.text).join(''), 'abcdef');
});

test('a line has the level of its record, also if it began without one', () => {
  const levelled = (content, level) => ({ ...record(content, 'stderr'), level });
  const lines = made(record('half ', 'stderr'), levelled('WARNING slow\n', 'warning'), levelled('INFO a\nINFO b\n', 'info'), record('printed\n', 'stderr'));
  assert.deepEqual(lines.blocks[0].lines.map((line) => [line.text, line.level]), [
    ['half WARNING slow', 'warning'], ['INFO a', 'info'], ['INFO b', 'info'], ['printed', undefined],
  ]);
});
