/** Members of a group by number and index, as ranges of text and as the squares of a grid. Pure. */

/** Indices of members: of member n `first + n * step`. @typedef {{ first: number, step: number, members: number }} Indices */

/** @param {{ members: number | null, array?: { first?: number | null, step?: number | null } | null }} group @returns {Indices} */
export function indicesOf({ members, array }) {
  return { first: array?.first ?? 0, step: array?.step ?? 1, members: members ?? 0 };
}

/** @param {Indices} of */
export function describe({ first, step, members }) {
  return `${first} to ${first + (members - 1) * step}${step === 1 ? '' : ` in steps of ${step}`}`;
}

/**
 * The numbers of the members that a text such as `3,5-9` names, in order; null if it is none, or names others.
 * @param {string} text
 * @param {Indices} of
 * @returns {number[] | null}
 */
export function numbersOf(text, { first, step, members }) {
  /** @type {Set<number>} */
  const found = new Set();
  for (const part of text.split(',').filter(Boolean)) {
    const [, low, high] = /^\s*(\d{1,9})(?:-(\d{1,9}))?\s*$/.exec(part) ?? [];
    if (low === undefined) return null;
    const [from, to] = [Number(low), Number(high ?? low)];
    const [lowest, highest] = [Math.ceil((from - first) / step), Math.floor((to - first) / step)];
    if (from > to || from < first || to > first + (members - 1) * step || highest < lowest) return null;
    for (let n = lowest; n <= highest; n += 1) found.add(n);
  }
  return [...found].sort((a, b) => a - b);
}

/**
 * Members' indices as ranges, such as `1,3-5,7`; with steps above 1 each is written out.
 * @param {Iterable<number>} numbers
 * @param {Indices} of
 */
export function rangesOf(numbers, { first, step }) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const index = first + number * step;
    const last = runs.at(-1);
    if (last && index === last[1] + 1) last[1] = index;
    else runs.push([index, index]);
  }
  return runs.map(([low, high]) => (low === high ? low : `${low}-${high}`)).join(',');
}

/**
 * The state of each member by its number; '' if the row of its job has expired.
 * @param {Record<string, string>} byState  Ranges of indices, as the API answers them.
 * @param {Indices} of
 * @returns {string[]}
 */
export function statesOf(byState, of) {
  const states = Array.from({ length: of.members }, () => '');
  for (const [state, text] of Object.entries(byState)) for (const n of numbersOf(text, of) ?? []) states[n] = state;
  return states;
}

/** Squares of a grid: their side with the gap, and how many stand in a row. @typedef {{ side: number, columns: number, rows: number }} Layout */

/** Side of a square with its gap in pixels, for up to so many members. @type {[number, number][]} */
const SIDES = [[100, 24], [1000, 16], [4000, 11], [Infinity, 8]];

/**
 * Rows of tens, so that a reader can count; with few members, one row.
 * @param {number} members
 * @param {number} width  Pixels.
 * @returns {Layout}
 */
export function layoutOf(members, width) {
  const side = SIDES.find(([most]) => members <= most)?.[1] ?? 8;
  const fit = Math.max(1, Math.floor(width / side));
  const columns = Math.min(members, fit < 10 ? fit : fit - (fit % 10));
  return { side, columns, rows: Math.ceil(members / columns) };
}

/**
 * The squares of each state as the path of an SVG: neighbours in a row are one rectangle, and `gapsOf` parts them.
 * @param {readonly string[]} states
 * @param {Layout} layout
 * @returns {Map<string, string>}
 */
export function squaresOf(states, { side, columns }) {
  /** @type {Map<string, string>} */
  const paths = new Map();
  for (let from = 0, n = 1; n <= states.length; n += 1) {
    const state = states[from] ?? '';
    if (states[n] === state && n % columns) continue;
    const size = (n - from) * side;
    paths.set(state, `${paths.get(state) ?? ''}M${(from % columns) * side} ${Math.floor(from / columns) * side}h${size}v${side}h${-size}z`);
    from = n;
  }
  return paths;
}

/** Lines over the grid between its squares. @param {Layout} layout */
export function gapsOf({ side, columns, rows }) {
  const lines = Array.from({ length: columns + 1 }, (_, n) => `M${n * side} 0v${rows * side}`);
  return [...lines, ...Array.from({ length: rows + 1 }, (_, n) => `M0 ${n * side}h${columns * side}`)].join('');
}

/** The number of the member at a place in the grid; null if none is there. @param {number} x @param {number} y @param {number} members @param {Layout} layout */
export function numberAt(x, y, members, { side, columns }) {
  const [column, row] = [Math.floor(x / side), Math.floor(y / side)];
  const number = row * columns + column;
  return column < 0 || row < 0 || column >= columns || number >= members ? null : number;
}

/**
 * The number of the member that a key leads to.
 * @param {number} from
 * @param {string} key  As in KeyboardEvent.key.
 * @param {number} members
 * @param {number} columns
 */
export function stepTo(from, key, members, columns) {
  const far = columns * 10;
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: far, PageUp: -far, Home: -members, End: members }[key];
  if (by === undefined) return null;
  const to = from + by;
  if (Math.abs(by) === columns && columns > 1 && (to < 0 || to >= members)) return from; // no row is there
  return Math.max(0, Math.min(members - 1, to));
}

/**
 * So many of the numbers, spread over all of them.
 * @param {readonly number[]} numbers
 * @param {number} most
 */
export function sampleOf(numbers, most) {
  if (numbers.length <= most) return [...numbers];
  return Array.from({ length: most }, (_, n) => numbers[Math.floor((n * numbers.length) / most)] ?? 0);
}
