// Lines with the control sequences of terminals.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { draw, PLAIN } from '../../../console/ansi.js';

const text = (raw) => draw(raw, PLAIN).parts.map((part) => part.text).join('');
const looks = (raw) => draw(raw, PLAIN).parts.map((part) => [part.text, part.look]);

test('colours become classes, and end where they are reset', () => {
  assert.deepEqual(looks('a \x1b[32mb\x1b[0m c'), [['a ', ''], ['b', 't-green'], [' c', '']]);
  assert.deepEqual(looks('\x1b[1;4;91mx'), [['x', 't-red t-bold t-underline']]);
  assert.deepEqual(looks('\x1b[31mr\x1b[39mn'), [['r', 't-red'], ['n', '']]);
  assert.deepEqual(looks('\x1b[31mr\x1b[37mw'), [['r', 't-red'], ['w', '']]);
  assert.deepEqual(looks('\x1b[37mwhite\x1b[30mblack'), [['whiteblack', '']]);
  assert.deepEqual(looks('\x1b[41;33mx'), [['x', 't-back']]);
  assert.deepEqual(looks('\x1b[2mfaint\x1b[22m \x1b[3;9mx\x1b[m'), [['faint', 't-grey'], [' ', ''], ['x', 't-italic t-strike']]);
});

test('of 256 and of 16 million colours the nearest one is shown', () => {
  assert.deepEqual(looks('\x1b[38;5;196ma'), [['a', 't-red']]);
  assert.deepEqual(looks('\x1b[38;5;46ma'), [['a', 't-green']]);
  assert.deepEqual(looks('\x1b[38;2;30;60;250ma'), [['a', 't-blue']]);
  assert.deepEqual(looks('\x1b[38;2;200;20;190ma'), [['a', 't-magenta']]);
  assert.deepEqual(looks('\x1b[38;5;244ma\x1b[38;5;255mb'), [['a', 't-grey'], ['b', '']]);
  assert.deepEqual(looks('\x1b[48;5;21;1mb'), [['b', 't-back t-bold']]);
});

test('what is set goes on in the next line', () => {
  const { pen } = draw('\x1b[35mbegins', PLAIN);
  assert.deepEqual(draw('goes on', pen).parts, [{ text: 'goes on', look: 't-magenta' }]);
});

test('a carriage return writes over the line, as far as the new text goes', () => {
  assert.equal(text('progress 10%\rprogress 100%'), 'progress 100%');
  assert.equal(text('abcdef\rxy'), 'xycdef');
  assert.equal(text('abcdef\rxy\x1b[K'), 'xy');
  assert.equal(text('abcdef\r\x1b[2Kxy'), 'xy');
  assert.equal(text('abd\bc'), 'abc');
  assert.equal(text('50%\r'), '50%');
  assert.deepEqual(looks('aaa\r\x1b[31mb'), [['b', 't-red'], ['aa', '']]);
});

test('other sequences and control characters are left out, also if they do not end', () => {
  assert.equal(text('a\x1b]0;title\x07b'), 'ab');
  assert.equal(text('a\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\b'), 'alinkb');
  assert.equal(text('a\x1b[2J\x1b[10;5Hb\x1b(Bc\x1bPdcs\x1b\\d'), 'abcd');
  assert.equal(text('a\x00\x07\x7f\x9bb\tc'), 'ab\tc');
  assert.equal(text('a\x1b[31'), 'a');
  assert.equal(text('a\x1b'), 'a');
  assert.equal(text('<script>alert(1)</script>'), '<script>alert(1)</script>');
});
