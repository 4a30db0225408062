/**
 * Text with the control sequences of terminals (ECMA-48): colours become classes, what moves the
 * cursor within a line moves it, and the rest is left out.
 *
 * Colours are classes and not values, so that each of them has enough contrast in both schemes; of
 * 256 and of 16 million colours the nearest one is shown.
 */

/**
 * What is set for the text that follows.
 * @typedef {object} Pen
 * @property {string} colour  `red`, `yellow`, `green`, `cyan`, `blue`, `magenta`, `grey`; empty for that of all text.
 * @property {boolean} back  Whether it has a background, of any colour.
 * @property {boolean} bold
 * @property {boolean} faint
 * @property {boolean} italic
 * @property {boolean} underline
 * @property {boolean} strike
 */

/**
 * A piece of a line.
 * @typedef {object} Part
 * @property {string} text
 * @property {string} look  Its classes; empty for plain text.
 */

/** Nothing set. @type {Pen} */
export const PLAIN = { colour: '', back: false, bold: false, faint: false, italic: false, underline: false, strike: false };

const BASIC = ['', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', ''];
const HUES = ['red', 'yellow', 'green', 'cyan', 'blue', 'magenta'];

// A control sequence with its parameters and its last byte; a string such as a title of the window;
// another escape; or a single control character. A line has no line feed, and keeps its tabs.
const CONTROL = /\x1b\[([0-?]*)[ -/]*([@-~]?)|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0a-\x1f\x7f-\x9f]/g;

/** Whether the cursor moves within the line. */
const MOVES = /[\r\b]|\x1b\[[0-?]*K/;

/**
 * Draw a line as a terminal does.
 * @param {string} raw  Without its line end.
 * @param {Pen} pen  What the line before has left set.
 * @returns {{ parts: Part[], pen: Pen }}
 */
export function draw(raw, pen) {
  const paper = MOVES.test(raw) ? new Cells() : new Strip();
  let at = 0;
  for (const found of raw.matchAll(CONTROL)) {
    if (found.index > at) paper.write(raw.slice(at, found.index), look(pen));
    at = found.index + found[0].length;
    if (found[2] === 'm') pen = select(pen, found[1] ?? '');
    else if (found[2] === 'K') paper.erase(found[1] ?? '');
    else if (found[0] === '\r') paper.move(-Infinity);
    else if (found[0] === '\b') paper.move(-1);
  }
  if (at < raw.length) paper.write(raw.slice(at), look(pen));
  return { parts: paper.parts(), pen };
}

/** A line that is only written to its end. */
class Strip {
  constructor() {
    /** @type {Part[]} */
    this.all = [];
  }

  /** @param {string} text @param {string} look */
  write(text, look) {
    const last = this.all.at(-1);
    if (last && last.look === look) last.text += text;
    else this.all.push({ text, look });
  }

  move() {}

  erase() {}

  parts() {
    return this.all;
  }
}

/** A line in which the cursor moves: progress bars write over what they wrote before. */
class Cells {
  constructor() {
    /** @type {Part[]} */
    this.cells = [];
    this.column = 0;
  }

  /** @param {string} text @param {string} look */
  write(text, look) {
    for (const character of text) {
      this.cells[this.column] = { text: character, look };
      this.column += 1;
    }
  }

  /** @param {number} columns */
  move(columns) {
    this.column = Math.max(0, this.column + columns);
  }

  /** @param {string} mode */
  erase(mode) {
    const to = mode === '' || mode === '0' ? this.cells.length : mode === '2' ? this.cells.length : this.column + 1;
    for (let n = mode === '' || mode === '0' ? this.column : 0; n < to; n += 1) this.cells[n] = { text: ' ', look: '' };
  }

  parts() {
    const strip = new Strip();
    for (let n = 0; n < this.cells.length; n += 1) strip.write(this.cells[n]?.text ?? ' ', this.cells[n]?.look ?? '');
    const last = strip.all.at(-1);
    if (last && !last.look) last.text = last.text.trimEnd();
    return strip.all.filter((part) => part.text);
  }
}

/** @param {Pen} pen */
function look(pen) {
  const names = [];
  if (pen.back) names.push('t-back'); // with the colour of all text: of any two, few can be read
  else if (pen.colour) names.push(`t-${pen.colour}`);
  else if (pen.faint) names.push('t-grey');
  for (const name of /** @type {const} */ (['bold', 'italic', 'underline', 'strike'])) if (pen[name]) names.push(`t-${name}`);
  return names.join(' ');
}

/**
 * Select graphic rendition.
 * @param {Pen} before
 * @param {string} parameters  Such as `1;31`.
 * @returns {Pen}
 */
function select(before, parameters) {
  const codes = parameters.split(/[;:]/).map((code) => Number(code || '0'));
  let pen = { ...before };
  for (let n = 0; n < codes.length; n += 1) {
    const code = codes[n] ?? 0;
    if (code === 0) pen = { ...PLAIN };
    else if (code === 1) pen.bold = true;
    else if (code === 2) pen.faint = true;
    else if (code === 3) pen.italic = true;
    else if (code === 4) pen.underline = true;
    else if (code === 7) pen.back = true;
    else if (code === 9) pen.strike = true;
    else if (code === 22) pen.bold = pen.faint = false;
    else if (code === 23) pen.italic = false;
    else if (code === 24) pen.underline = false;
    else if (code === 27 || code === 49) pen.back = false;
    else if (code === 29) pen.strike = false;
    else if (code >= 30 && code <= 37) pen.colour = BASIC[code - 30] ?? '';
    else if (code === 39) pen.colour = '';
    else if (code >= 40 && code <= 47) pen.back = true;
    else if (code >= 90 && code <= 97) pen.colour = code === 90 ? 'grey' : BASIC[code - 90] ?? '';
    else if (code >= 100 && code <= 107) pen.back = true;
    else if (code === 38 || code === 48) {
      const rgb = codes[n + 1] === 2;
      const colour = rgb ? nearest(codes[n + 2] ?? 0, codes[n + 3] ?? 0, codes[n + 4] ?? 0) : indexed(codes[n + 2] ?? 0);
      n += rgb ? 4 : 2;
      if (code === 38) pen.colour = colour;
      else pen.back = true;
    }
  }
  return pen;
}

/** The colour of an index of 256. @param {number} index */
function indexed(index) {
  if (index < 16) return index === 8 ? 'grey' : BASIC[index % 8] ?? '';
  if (index >= 232) return index < 240 || index > 250 ? '' : 'grey';
  const levels = [Math.floor((index - 16) / 36), Math.floor((index - 16) / 6) % 6, (index - 16) % 6];
  const [red = 0, green = 0, blue = 0] = levels.map((level) => (level ? 55 + level * 40 : 0));
  return nearest(red, green, blue);
}

/**
 * The nearest of our colours.
 * @param {number} red  0 to 255, as the others.
 * @param {number} green
 * @param {number} blue
 */
function nearest(red, green, blue) {
  const most = Math.max(red, green, blue);
  const span = most - Math.min(red, green, blue);
  if (span < 40) return most > 64 && most < 192 ? 'grey' : '';
  let turn = 0;
  if (most === red) turn = ((green - blue) / span + 6) % 6;
  else if (most === green) turn = (blue - red) / span + 2;
  else turn = (red - green) / span + 4;
  return HUES[Math.round(turn) % 6] ?? '';
}
