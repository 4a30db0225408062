/** The output of a job as lines: made from the API's records, drawn, and searched. */

import { draw, PLAIN } from './ansi.js';

/** @typedef {import('./types').LogRecord} LogRecord */
/** @typedef {import('./ansi.js').Part} Part */
/** @typedef {import('./ansi.js').Pen} Pen */

/**
 * @typedef {object} Line
 * @property {number} n  Its number, from 1, of all that were read.
 * @property {number} epoch  The claim that it is of: each time that the job was started has its own.
 * @property {number} attempt
 * @property {string} stream  `stdout`, `stderr`, or `joblane`.
 * @property {string | null | undefined} level  Of a handler's log.
 * @property {string} time
 * @property {string} raw  As the job wrote it.
 * @property {string} text  What a reader sees.
 * @property {Part[]} parts  The same with its looks.
 * @property {boolean} ended  Whether a line end came; what comes next of the stream belongs to it otherwise.
 * @property {Pen} pen  What was set before it.
 */

/**
 * Lines that are drawn together, and again only if they have changed.
 * @typedef {object} Block
 * @property {number} key
 * @property {number} version
 * @property {Line[]} lines
 */

/** Lines of a block. */
export const BLOCK = 200;

/** Most lines that are kept; the first ones go. */
export const MOST = 20_000;

/** Characters after which a line is broken: browsers draw longer ones slowly. */
export const LONGEST = 8000;

/** Lines of a job's output. */
export class LogLines {
  constructor() {
    /** @type {Block[]} */
    this.blocks = [];
    /** Lines that were read. */
    this.read = 0;
    /** Lines that were left out again, because there were too many. */
    this.dropped = 0;
    /** The last line of each claim and stream. @type {Map<string, { line: Line, block: Block, pen: Pen, decoder: TextDecoder }>} */
    this.last = new Map();
  }

  /** Lines that are kept. */
  get count() {
    return this.read - this.dropped;
  }

  /** @param {readonly LogRecord[]} records  In order. */
  add(records) {
    for (const record of records) {
      const name = `${record.epoch} ${record.stream}`;
      const decoder = this.last.get(name)?.decoder ?? new TextDecoder();
      for (const piece of textOf(record, decoder).split(/(?<=\n)/)) this.#put(record, name, piece, decoder);
    }
    while (this.count > MOST + BLOCK) this.dropped += this.blocks.shift()?.lines.length ?? 0;
  }

  /**
   * @param {LogRecord} record
   * @param {string} name
   * @param {string} piece  Text with at most one line end, at its end.
   * @param {TextDecoder} decoder
   */
  #put(record, name, piece, decoder) {
    if (!piece) return;
    const before = this.last.get(name);
    const open = before && !before.line.ended && before.line.raw.length < LONGEST ? before : null;
    const ended = piece.endsWith('\n');
    const body = ended ? piece.replace(/\r?\n$/, '') : piece;
    const block = open ? open.block : this.#room();
    const line = open ? { ...open.line } : {
      n: this.read + 1, epoch: record.epoch, attempt: record.attempt, stream: record.stream, level: record.level, time: record.time, raw: '', text: '',
      parts: /** @type {Part[]} */ ([]), ended: false, pen: before?.pen ?? PLAIN,
    };
    line.level = record.level ?? line.level;
    const rest = line.raw + body;
    line.raw = rest.slice(0, LONGEST);
    const drawn = draw(line.raw, line.pen);
    line.parts = drawn.parts;
    line.text = drawn.parts.map((part) => part.text).join('');
    line.ended = ended && rest.length <= LONGEST;
    if (open) block.lines[block.lines.findLastIndex((one) => one.n === line.n)] = line;
    else {
      block.lines.push(line);
      this.read += 1;
    }
    block.version += 1;
    this.last.set(name, { line, block, pen: drawn.pen, decoder });
    if (rest.length > LONGEST) this.#put(record, name, rest.slice(LONGEST) + (ended ? '\n' : ''), decoder);
  }

  #room() {
    let block = this.blocks.at(-1);
    if (!block || block.lines.length >= BLOCK) {
      block = { key: this.read, version: 0, lines: [] };
      this.blocks.push(block);
    }
    return block;
  }

  /** All lines that are kept, as text without colours. */
  text() {
    return this.blocks.flatMap((block) => block.lines.map((line) => `${line.text}${line.ended || line.raw.length < LONGEST ? '\n' : ''}`)).join('');
  }
}

/**
 * The text of a record; bytes that are not UTF-8 become U+FFFD.
 * @param {LogRecord} record
 * @param {TextDecoder} decoder  Of its attempt and stream: a character may begin in one record and end in the next.
 */
export function textOf(record, decoder) {
  if (!record.base64) return decoder.decode() + (record.text ?? '');
  return decoder.decode(bytesOf(record), { stream: true });
}

/** The bytes of a record, as the job wrote them. @param {LogRecord} record @returns {Uint8Array<ArrayBuffer>} */
export function bytesOf(record) {
  if (!record.base64) return new TextEncoder().encode(record.text ?? '');
  return Uint8Array.from(atob(record.base64), (character) => character.charCodeAt(0));
}

/** Where a text is found in a line, from and to. @typedef {[number, number]} Range */

/** @type {WeakMap<Block, { version: number, sought: string, found: Map<number, Range[]>, count: number }>} */
const searched = new WeakMap();

/**
 * Where a text is found in the lines of a block, by the lines' numbers. Case does not matter.
 * @param {Block} block
 * @param {string} sought
 * @returns {{ found: Map<number, Range[]>, count: number }}  The same object as before if nothing has changed.
 */
export function search(block, sought) {
  const before = searched.get(block);
  if (before && before.version === block.version && before.sought === sought) return before;
  const pattern = new RegExp(sought.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi');
  const result = { version: block.version, sought, found: /** @type {Map<number, Range[]>} */ (new Map()), count: 0 };
  if (sought) {
    for (const line of block.lines) {
      const ranges = [...line.text.matchAll(pattern)].map((each) => /** @type {Range} */ ([each.index, each.index + each[0].length]));
      if (!ranges.length) continue;
      result.found.set(line.n, ranges);
      result.count += ranges.length;
    }
  }
  searched.set(block, result);
  return result;
}

/**
 * Cut the parts of a line at where a text was found in it.
 * @param {readonly Part[]} parts
 * @param {readonly Range[]} ranges  In order, without overlaps.
 * @returns {{ text: string, look: string, range: number }[]}  `range` is the index of the range, or -1.
 */
export function cut(parts, ranges) {
  const pieces = [];
  let at = 0;
  let next = 0;
  for (const part of parts) {
    const end = at + part.text.length;
    let from = at;
    while (from < end) {
      while (next < ranges.length && (ranges[next]?.[1] ?? 0) <= from) next += 1;
      const [start, stop] = ranges[next] ?? [Infinity, Infinity];
      const inside = from >= start;
      const to = Math.min(end, inside ? stop : start);
      pieces.push({ text: part.text.slice(from - at, to - at), look: part.look, range: inside ? next : -1 });
      from = to;
    }
    at = end;
  }
  return pieces;
}
