/** The grid of a group's members: a square for each, in the order of their indices, coloured by its state. */

import { gapsOf, layoutOf, numberAt, squaresOf, stepTo } from './members.js';
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from './view.js';

/** @typedef {import('./members.js').Indices} Indices */

const mix = (/** @type {string} */ colour, /** @type {number} */ share) => `color-mix(in srgb, var(--${colour}) ${share}%, var(--panel))`;

/** Failures are the strongest; what is well and what waits is paler. @type {Record<string, string>} */
const FILLS = {
  completed: mix('good', 50), active: 'var(--accent)', pending: mix('idle', 65), waiting: mix('idle', 30), scheduled: mix('idle', 30), retry: 'var(--warn)', blocked: 'var(--warn)', failed: 'var(--bad)', dead: 'var(--bad)',
  stale: 'var(--bad)', expired: 'var(--bad)', cancelled: 'var(--text)', skipped: mix('good', 22), '': 'var(--page)',
};

const FAILED = ['failed', 'dead', 'stale', 'expired'];

/**
 * One place in the order of the Tab key: arrows go from square to square, Enter opens one, x selects it.
 * @param {object} props
 * @param {readonly string[]} props.states  Of each member by its number.
 * @param {Indices} props.of
 * @param {string} props.only  The state whose members stand out; '' for all.
 * @param {ReadonlySet<number>} props.selected
 * @param {(number: number) => string} props.say  What a square is, in words.
 * @param {(number: number) => void} props.onOpen
 * @param {(from: number, to: number) => void} props.onSelect  Select these, or none of them if all are selected.
 */
export function MemberGrid({ states, of, only, selected, say, onOpen, onSelect }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const svg = useRef(/** @type {SVGSVGElement | null} */ (null));
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const from = useRef(/** @type {number | null} */ (null)); // where a range begins: what was selected last
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    setWidth(element.clientWidth);
    return () => watch.disconnect();
  }, []);
  const layout = useMemo(() => layoutOf(of.members, width - 4), [of.members, width]);
  const { side, columns, rows } = layout;
  const squares = useMemo(() => squaresOf(states, layout), [states, layout]);
  const gaps = useMemo(() => gapsOf(layout), [layout]);
  const marks = useMemo(() => states.map((state, n) => (FAILED.includes(state) ? `M${(n % columns) * side + side * .3} ${Math.floor(n / columns) * side + side * .3}l${side * .4} ${side * .4}` : '')).join(''), [states, layout]);
  const frame = (/** @type {number} */ n) => `M${(n % columns) * side} ${Math.floor(n / columns) * side}h${side}v${side}h${-side}z`;
  useEffect(() => {
    const element = place.current;
    if (at === null || !element || document.activeElement !== element) return;
    const top = Math.floor(at / columns) * side;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + side > element.scrollTop + element.clientHeight) element.scrollTop = top + side - element.clientHeight;
  }, [at]);
  const under = (/** @type {MouseEvent} */ event) => {
    const box = svg.current?.getBoundingClientRect();
    return box ? numberAt(event.clientX - box.left, event.clientY - box.top, of.members, layout) : null;
  };
  const select = (/** @type {number} */ to, /** @type {boolean} */ range) => {
    const begin = range ? from.current ?? to : to;
    onSelect(Math.min(begin, to), Math.max(begin, to));
    from.current = to;
  };
  const onClick = (/** @type {MouseEvent} */ event) => {
    const number = under(event);
    if (number === null) return;
    if (event.shiftKey || event.ctrlKey || event.metaKey) select(number, event.shiftKey);
    else onOpen(number);
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = at === null ? 0 : stepTo(at, event.key, of.members, columns);
    if (event.key === 'Enter' && at !== null) onOpen(at);
    else if (event.key.toLowerCase() === 'x' && at !== null) select(at, event.shiftKey);
    else if (to !== null && stepTo(0, event.key, of.members, columns) !== null) setAt(to);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div ref=${place} tabindex="0" role="group" aria-label=${`Grid of ${of.members} members; arrow keys go from one to the next, Enter opens it, x selects it`}
      style=${{ maxHeight: 'min(70vh, 44rem)', overflowY: 'auto', padding: '2px', cursor: 'pointer' }} onKeyDown=${onKey} onClick=${onClick}
      onFocus=${() => at === null && setAt(0)} onMouseMove=${(/** @type {MouseEvent} */ event) => setAt((before) => under(event) ?? before)}>
      ${width > 0 && html`<svg ref=${svg} width=${columns * side} height=${rows * side} style=${{ display: 'block' }} aria-hidden="true">
        ${[...squares].map(([state, d]) => html`<path key=${state} d=${d} style=${{ fill: FILLS[state] ?? 'var(--line)', opacity: !only || only === state ? 1 : .15, forcedColorAdjust: 'none' }} />`)}
        ${(!only || FAILED.includes(only)) && html`<path d=${marks} style=${{ stroke: 'var(--panel)', strokeWidth: side > 12 ? 2 : 1 }} />`}
        <path d=${gaps} style=${{ stroke: 'var(--panel)', strokeWidth: side > 12 ? 3 : side > 9 ? 2 : 1.4 }} />
        <path d=${[...selected].map(frame).join('')} style=${{ fill: 'none', stroke: 'var(--text)', strokeWidth: 2 }} />
        ${at !== null && at < of.members && html`<path d=${frame(at)} style=${{ fill: 'none', stroke: 'var(--text)', strokeWidth: 2, strokeDasharray: '3 2' }} />`}
      </svg>`}
    </div>
    <p class="about readout" role="status">${at !== null && at < of.members ? say(at) : 'Point at a square, or go to it with the arrow keys, to see which member it is; Shift and a click select.'}</p>`;
}
