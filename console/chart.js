/** Line charts over time, whose lines are told apart without colours, with the same figures as a table. */

import { linePath, nearest, timeTicks, valueTicks } from './chart-lines.js';
import { clock, utc } from './time.js';
import { html, useEffect, useRef, useState, useStore } from './view.js';

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {'accent' | 'good' | 'bad' | 'warn' | 'idle'} colour
 * @property {number[]} [dash]  Lengths of strokes and gaps, so that lines are told apart without colours.
 * @property {(number | null)[]} values
 */

const LEFT = 48;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 34;

/** Pixels that a mark of time needs. */
const TICK_PX = 64;

/**
 * @param {object} props
 * @param {string} props.title  What it shows, for screen readers.
 * @param {number[]} props.at  Unix seconds of each point.
 * @param {Series[]} props.series
 * @param {string} [props.unit]
 * @param {number} [props.height]  In pixels.
 */
export function Chart({ title, at, series, unit = '', height = 180 }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const width = useWidth(place);
  const inUtc = useStore(utc);
  const [pointed, setPointed] = useState(/** @type {number | null} */ (null));
  const [first = 0, last = 0] = [at[0], at.at(-1)];
  const right = width - RIGHT;
  const bottom = height - BOTTOM;
  const high = Math.max(0, ...series.flatMap((each) => each.values.map((value) => value ?? 0)));
  const values = valueTicks(high, 4, !unit);
  const top = values.at(-1) ?? 1;
  const x = (/** @type {number} */ seconds) => LEFT + ((seconds - first) / (last - first || 1)) * (right - LEFT);
  const y = (/** @type {number} */ value) => bottom - (value / top) * (bottom - TOP);
  const xs = at.map(x);
  const times = at.length ? timeTicks(first, last, (right - LEFT) / TICK_PX, inUtc) : [];
  const shown = pointed !== null && pointed < at.length ? pointed : null;
  const point = (/** @type {PointerEvent} */ event) => {
    const box = place.current?.getBoundingClientRect();
    if (box) setPointed(nearest(xs, event.clientX - box.left));
  };
  const valueOf = (/** @type {Series} */ each) => text(each.values[shown ?? at.length - 1] ?? null, unit);
  return html`<figure class="chart">
    <div ref=${place} onPointerMove=${point} onPointerLeave=${() => setPointed(null)}>
      <svg width=${width} height=${height} role="img" aria-label=${`${title}. ${at.length ? `Last: ${series.map((each) => `${each.name} ${text(each.values.at(-1) ?? null, unit)}`).join(', ')}` : 'No figures yet'}`}>
        ${values.map((value) => html`<line class="rule" x1=${LEFT} x2=${right} y1=${y(value)} y2=${y(value)} /><text x=${LEFT - 8} y=${y(value) + 4} text-anchor="end">${value}${unit}</text>`)}
        ${times.map((tick) => html`<line class="rule" x1=${x(tick.at)} x2=${x(tick.at)} y1=${TOP} y2=${bottom + 4} /><text x=${x(tick.at)} y=${bottom + 17} text-anchor="middle">${tick.time}${tick.day && html`<tspan x=${x(tick.at)} dy="14">${tick.day}</tspan>`}</text>`)}
        ${series.map((each) => html`<path d=${linePath(xs, each.values, y)} style=${{ stroke: `var(--${each.colour})` }} stroke-dasharray=${each.dash?.join(' ')} />`)}
        ${shown !== null && html`<line class="pointer" x1=${xs[shown]} x2=${xs[shown]} y1=${TOP} y2=${bottom} />
          ${series.map((each) => (each.values[shown] ?? null) !== null && html`<circle cx=${xs[shown]} cy=${y(each.values[shown] ?? 0)} r="3" style=${{ fill: `var(--${each.colour})` }} />`)}`}
      </svg>
    </div>
    <figcaption class="legend">${series.map((each) => html`<span><svg viewBox="0 0 28 8" aria-hidden="true"><line x1="0" y1="4" x2="28" y2="4" style=${{ stroke: `var(--${each.colour})` }} stroke-width="3" stroke-dasharray=${each.dash?.join(' ')} /></svg>${each.name} <b>${valueOf(each)}</b></span>`)}
      ${at.length > 0 && html`<span class="when">at ${clock((at[shown ?? at.length - 1] ?? 0) * 1000, inUtc).slice(11, 16)}</span>`}</figcaption>
    <${Figures} title=${title} at=${at} series=${series} unit=${unit} inUtc=${inUtc} />
  </figure>`;
}

/** @param {number | null} value @param {string} unit */
function text(value, unit) {
  return value === null ? '–' : `${value.toLocaleString('en-GB', { maximumFractionDigits: 2 })}${unit}`;
}

/** The figures of a chart as a table, made when it is opened. @param {{ title: string, at: number[], series: Series[], unit: string, inUtc: boolean }} props */
function Figures({ title, at, series, unit, inUtc }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.target).open)}><summary>Show as table</summary>
    ${open && html`<div class="scroll figures-table" tabindex="0" role="region" aria-label=${title}><table><caption class="hidden">${title}</caption><thead><tr><th scope="col">Time</th>${series.map((each) => html`<th scope="col" class="number">${each.name}</th>`)}</tr></thead>
      <tbody>${at.map((seconds, n) => html`<tr key=${seconds}><td class="name">${clock(seconds * 1000, inUtc)}</td>${series.map((each) => html`<td class="number">${text(each.values[n] ?? null, unit)}</td>`)}</tr>`).reverse()}</tbody></table></div>`}
  </details>`;
}

/** The width of an element in pixels, as the window has it now. @param {{ current: HTMLElement | null }} place */
function useWidth(place) {
  const [width, setWidth] = useState(320);
  useEffect(() => {
    const target = place.current;
    if (!target) return undefined;
    const measure = () => setWidth(Math.max(200, target.clientWidth));
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(target);
    return () => watch.disconnect();
  }, []);
  return width;
}
