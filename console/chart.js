/** Line charts over time (uPlot), with a legend that does not depend on colour and the same figures as a table. */

import { clock, utc } from './time.js';
import { html, useEffect, useMemo, useRef, useState, useStore } from './view.js';
import uPlot from './vendor/uplot.js';

/** How the axis of time is written, by the distance of its ticks: in 24 hours, with the day where one begins. */
const TIMES = [
  [86_400, '{YYYY}-{MM}-{DD}', null, null, null, null, null, null, 0],
  [60, '{HH}:{mm}', null, null, '\n{YYYY}-{MM}-{DD}', null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1],
];

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {'accent' | 'good' | 'bad' | 'warn' | 'idle'} colour
 * @property {number[]} [dash]  Lengths of strokes and gaps, so that lines are told apart without colours.
 * @property {(number | null)[]} values
 */

/**
 * @param {object} props
 * @param {string} props.title  What it shows, for screen readers.
 * @param {number[]} props.at  Unix seconds of each point.
 * @param {Series[]} props.series
 * @param {string} [props.unit]
 * @param {number} [props.height]
 */
export function Chart({ title, at, series, unit = '', height = 180 }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const inUtc = useStore(utc);
  const scheme = useScheme();
  const data = useMemo(() => /** @type {uPlot.AlignedData} */ ([at, ...series.map((each) => each.values)]), [at, series]);
  const shape = JSON.stringify([series.map((each) => [each.name, each.colour, each.dash]), unit, height, inUtc, scheme]);
  useEffect(() => {
    const target = place.current;
    if (!target) return undefined;
    const style = getComputedStyle(target);
    const colour = (/** @type {string} */ name) => resolved(target, style.getPropertyValue(`--${name}`));
    const axis = { stroke: colour('soft'), grid: { stroke: colour('line'), width: 1 }, ticks: { stroke: colour('line'), width: 1 }, font: '12px system-ui' };
    plot.current = new uPlot({
      width: Math.max(200, target.clientWidth),
      height,
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      tzDate: (/** @type {number} */ seconds) => (inUtc ? uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') : new Date(seconds * 1000)),
      scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.08)] } },
      axes: [{ ...axis, values: TIMES }, { ...axis, size: 54, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => `${tick}${unit}`) }],
      series: [{}, ...series.map((each) => ({ label: each.name, stroke: colour(each.colour), width: 1.6, ...(each.dash ? { dash: each.dash } : {}), points: { show: false } }))],
    }, data, target);
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, target.clientWidth), height }));
    watch.observe(target);
    return () => {
      watch.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [data]);
  return html`<figure class="chart">
    <div ref=${place} role="img" aria-label=${title}></div>
    <figcaption class="legend">${series.map((each) => html`<span><svg viewBox="0 0 28 8" aria-hidden="true"><line x1="0" y1="4" x2="28" y2="4" style=${{ stroke: `var(--${each.colour})` }} stroke-width="3" stroke-dasharray=${each.dash?.join(' ') ?? ''} /></svg>${each.name}</span>`)}</figcaption>
    <${Figures} title=${title} at=${at} series=${series} unit=${unit} inUtc=${inUtc} />
  </figure>`;
}

/** The figures of a chart as a table, made when it is opened. @param {any} props */
function Figures({ title, at, series, unit, inUtc }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.target).open)}><summary>Show as table</summary>
    ${open && html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table><caption class="hidden">${title}</caption><thead><tr><th scope="col">Time</th>${series.map((/** @type {Series} */ each) => html`<th scope="col" class="number">${each.name}</th>`)}</tr></thead>
      <tbody>${at.map((/** @type {number} */ seconds, /** @type {number} */ n) => html`<tr key=${seconds}><td>${clock(seconds * 1000, inUtc)}</td>${series.map((/** @type {Series} */ each) => html`<td class="number">${each.values[n] ?? '–'}${each.values[n] === null ? '' : unit}</td>`)}</tr>`).reverse()}</tbody></table></div>`}
  </details>`;
}

/** `dark` or `light`, as the reader's system says now. */
function useScheme() {
  const query = useMemo(() => matchMedia('(prefers-color-scheme: dark)'), []);
  const [dark, set] = useState(query.matches);
  useEffect(() => {
    const listener = () => set(query.matches);
    query.addEventListener('change', listener);
    return () => query.removeEventListener('change', listener);
  }, []);
  return dark ? 'dark' : 'light';
}

/**
 * A colour as the canvas takes it: it knows neither variables nor light-dark().
 * @param {HTMLElement} near
 * @param {string} value
 */
function resolved(near, value) {
  const probe = document.createElement('span');
  probe.style.color = value;
  near.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
