/** Geometry of line charts: marks of the axes, and lines with gaps. */

/**
 * Round values from 0 to `high`, about `most` of them; the last one is `high` or above.
 * @param {number} high
 * @param {number} most
 * @param {boolean} whole  Whether values between whole numbers have no meaning.
 */
export function valueTicks(high, most, whole = false) {
  const rough = Math.max(high || 1, whole ? 1 : 1e-3) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= rough * (1 - 1e-9) && (!whole || each >= 1)) ?? 10 * power;
  const count = Math.max(1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, n) => Number((n * step).toPrecision(12)));
}

/** Distances of marks of time, in minutes. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440];

/**
 * Full minutes and hours of the reader's zone, or of UTC.
 * @param {number} from  Unix seconds.
 * @param {number} to
 * @param {number} most  How many have room.
 * @param {boolean} inUtc
 * @returns {{ at: number, time: string, day: string }[]}  `day` only at the first mark of a day.
 */
export function timeTicks(from, to, most, inUtc) {
  const minutes = STEPS.find((step) => (to - from) / 60 / step <= most) ?? 1440;
  const step = minutes * 60;
  /** @param {number} seconds */
  const shift = (seconds) => (inUtc ? 0 : -60 * new Date(seconds * 1000).getTimezoneOffset());
  const ticks = [];
  let lastDay = '';
  for (let at = Math.ceil((from + shift(from)) / step) * step - shift(from); at <= to; at += step) {
    const local = new Date((at + shift(at)) * 1000).toISOString();
    const day = local.slice(0, 10);
    ticks.push({ at, time: local.slice(11, 16), day: day === lastDay ? '' : day });
    lastDay = day;
  }
  return ticks;
}

/**
 * A line through points, with gaps where there is no value; a point between two gaps is a dot.
 * @param {readonly number[]} xs
 * @param {readonly (number | null)[]} values
 * @param {(value: number) => number} y
 */
export function linePath(xs, values, y) {
  let path = '';
  let drawn = false;
  for (const [n, x] of xs.entries()) {
    const value = values[n] ?? null;
    if (value === null) {
      drawn = false;
      continue;
    }
    const place = `${round(x)} ${round(y(value))}`;
    path += drawn ? `L${place}` : `M${place}${(values[n + 1] ?? null) === null ? 'h.01' : ''}`;
    drawn = true;
  }
  return path;
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}

/**
 * The index of the point that is nearest to a place.
 * @param {readonly number[]} xs  Ascending.
 * @param {number} x
 */
export function nearest(xs, x) {
  let best = 0;
  for (const [n, each] of xs.entries()) if (Math.abs(each - x) < Math.abs((xs[best] ?? 0) - x)) best = n;
  return best;
}
