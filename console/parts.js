/** Parts of pages: badges, times, tables, messages. */

import { ApiError } from './api.js';
import { useKeys } from './keys.js';
import { href } from './router.js';
import { clock, duration, now, relative, utc, zone } from './time.js';
import { html, usePicked, useEffect, useMemo, useRef, useState, useStore } from './view.js';

/** @typedef {import('./view.js').Children} Children */

/** A sign for each state, so that none is told by its colour alone. @type {Record<string, string>} */
const SIGNS = {
  scheduled: '◔', waiting: '⋯', pending: '○', active: '●', retry: '↻', blocked: '▲', completed: '✓',
  failed: '✕', dead: '✖', cancelled: '–', expired: '◌', skipped: '»', stale: '?', dismissed: '·',
  processing: '●', partial_failure: '◐', ready: '✓', cordoning: '◐', cordoned: '–', draining: '↘', gone: '✕',
  started: '✓', missed: '✕', refused: '✕', paused: '‖',
};

/** The state of a job, a group or an agent. @param {{ state: string }} props */
export function Badge({ state }) {
  return html`<span class=${`badge is-${state}`}><span aria-hidden="true">${SIGNS[state] ?? '•'}</span> ${state.replaceAll('_', ' ')}</span>`;
}

/** The same in the cell of a name, where a narrow screen has no column for it. @param {{ state: string }} props */
export const SlimBadge = ({ state }) => html`<span class="slim"><${Badge} state=${state} /></span>`;

/** What stands in place of a value that is not there. */
export const dash = () => html`<span class="none dash">–</span>`;

/**
 * A time: how long ago, with the clock of the reader's zone and of UTC beside it.
 * @param {{ at: string | null | undefined, full?: boolean }} props  `full` shows the clock itself.
 */
export function Time({ at, full = false }) {
  const inUtc = useStore(utc);
  const text = usePicked(now, (nowMs) => (!at ? '' : full ? clock(at, inUtc) : relative(at, nowMs)));
  const title = useMemo(() => (at ? `${clock(at, false)} ${zone(false)} · ${clock(at, true)} UTC` : ''), [at]);
  if (!at) return dash();
  return html`<time datetime=${at} title=${title}>${text}</time>`;
}

/** Time from one moment to another, or until now. @param {{ from: string | null, to?: string | null }} props */
export function Span({ from, to = null }) {
  const text = usePicked(now, (nowMs) => (from ? duration(((to ? Date.parse(to) : nowMs) - Date.parse(from)) / 1000) : ''));
  return from ? html`<span>${text}</span>` : dash();
}

/** Text in a fixed-width font that can be copied. @param {{ text: string, short?: number }} props */
export function Id({ text, short = 0 }) {
  return html`<code class="id" title=${text}>${short && text.length > short ? `${text.slice(0, short)}…` : text}</code>`;
}

/** A button that copies text. @param {{ text: string, what: string }} props */
export function Copy({ text, what }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text).catch(() => undefined);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<button type="button" class="quiet" aria-label=${`Copy ${what}`} onClick=${copy}>${done ? 'Copied' : 'Copy'}</button>`;
}

/**
 * The heading that had the focus last. When another component draws it anew, with the data that it
 * waited for, the new one takes the focus. @type {HTMLElement | null}
 */
let lastHeading = null;

/**
 * The head of a page: title, what belongs to it, and its actions.
 * @param {{ title: string, children?: Children, about?: Children }} props  `children` are the actions.
 */
export function Head({ title, children, about }) {
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    document.title = `${title} · Joblane`;
  }, [title]);
  useEffect(() => {
    const focused = document.activeElement;
    const isLost = focused === document.body && lastHeading !== null && !lastHeading.isConnected;
    if (focused?.id === 'main' || isLost) heading.current?.focus({ preventScroll: true });
  }, []);
  return html`<header class="head">
    <div><h1 ref=${heading} tabindex="-1" onFocus=${() => (lastHeading = heading.current)}>${title}</h1>${about && html`<p class="about">${about}</p>`}</div>
    <div class="actions">${children}</div>
  </header>`;
}

/** A section with a heading. @param {{ title: string, children?: Children, actions?: Children, className?: string }} props */
export function Section({ title, children, actions, className = '' }) {
  return html`<section class=${`panel ${className}`}>
    <div class="panel-head"><h2>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</div>
    ${children}
  </section>`;
}

/** What to say in place of an empty list: what to do first. @param {{ children?: Children }} props */
export function Empty({ children }) {
  return html`<div class="empty">${children}</div>`;
}

/** A request that failed: what happened, and the id of the request. @param {{ error: Error | null, retry?: () => void }} props */
export function Failure({ error, retry }) {
  if (!error) return null;
  const api = error instanceof ApiError ? error : null;
  if (api?.status === 401) return html`<p class="none">Log in again to see this.</p>`;
  return html`<div class="failure" role="alert">
    <p>${error.message}</p>
    ${api && api.errors.length > 0 && html`<ul>${api.errors.map((each) => html`<li><code>${each.field}</code> ${each.problem}</li>`)}</ul>`}
    ${api?.requestId && html`<p class="about">Request <code>${api.requestId}</code></p>`}
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

/** Something to wait for. @param {{ what?: string }} props */
export function Loading({ what = 'Loading…' }) {
  return html`<p class="loading" role="status">${what}</p>`;
}

/** What stands in place of what was not read yet. @param {{ error: Error | null, retry: () => void, gone?: Children }} props  `gone`: what to say if there is no such thing. */
export function Reading({ error, retry, gone }) {
  if (gone && error instanceof ApiError && error.status === 404) return html`<section class="panel"><${Empty}>${gone}<//></section>`;
  return error ? html`<${Failure} error=${error} retry=${retry} />` : html`<${Loading} />`;
}

/**
 * Names and values. Entries whose value is null, undefined or '' are left out.
 * @param {{ entries: [string, unknown][] }} props
 */
export function Facts({ entries }) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return html`<dl class="facts">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A figure with its name. @param {{ name: string, value: Children, to?: string, tone?: '' | 'bad' | 'warn' | 'good', note?: Children }} props */
export function Figure({ name, value, to, tone = '', note }) {
  const inner = html`<span class="figure-name">${name}</span><strong>${value}</strong>${note && html`<span class="about">${note}</span>`}`;
  return to ? html`<a class=${`figure ${tone}`} href=${to}>${inner}</a>` : html`<div class=${`figure ${tone}`}>${inner}</div>`;
}

/** How full something is. @param {{ value: number, most: number, label: string }} props */
export function Meter({ value, most, label }) {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  return html`<span class="meter"><meter min="0" max="1" high="0.9" value=${share} aria-label=${label}></meter> ${value.toLocaleString('en')} of ${most.toLocaleString('en')}</span>`;
}

/**
 * A column of a table.
 * @template R
 * @typedef {object} Column
 * @property {string} name  Its heading.
 * @property {(row: R) => unknown} cell
 * @property {string} [className]  `number` for figures, `wide` for what takes the room that is left, `minor` for what a narrow screen leaves out.
 */

/**
 * A table of rows with keyboard: j and k move the focus from row to row, Enter opens, x selects.
 *
 * With `columns` that stay the same object, only rows that have changed are drawn again: then the cells
 * must depend on their row alone, or be components.
 * @template R
 * @param {object} props
 * @param {string} props.caption  What the table lists, for screen readers.
 * @param {Column<R>[]} props.columns  The first cell of a row is its link if `to` is given.
 * @param {readonly R[]} props.rows
 * @param {(row: R) => string} props.id
 * @param {(row: R) => string} [props.to]  Address of the row's own page.
 * @param {Set<string>} [props.selected]  Ids of the selected rows; with `onSelect`.
 * @param {(ids: Set<string>) => void} [props.onSelect]
 */
export function Table({ caption, columns, rows, id, to, selected, onSelect }) {
  const body = useRef(/** @type {HTMLTableSectionElement | null} */ (null));
  const at = () => [...(body.current?.children ?? [])].findIndex((line) => line.contains(document.activeElement));
  /** @param {string} one */
  const toggle = (one) => {
    const next = new Set(selected);
    if (!next.delete(one)) next.add(one);
    onSelect?.(next);
  };
  const latest = useRef(toggle);
  latest.current = toggle;
  /** @typedef {{ row: R, columns: Column<R>[], chosen: boolean, view: unknown }} Drawn */
  const drawn = useRef(/** @type {Map<string, Drawn>} */ (new Map()));
  const before = drawn.current;
  drawn.current = new Map();
  /** @param {R} row */
  const line = (row) => {
    const key = id(row);
    const chosen = selected?.has(key) ?? false;
    let one = before.get(key);
    if (one?.row !== row || one.columns !== columns || one.chosen !== chosen) {
      const view = html`<tr key=${key} class=${chosen ? 'selected' : ''}>
        ${onSelect && html`<td class="select"><input type="checkbox" tabindex="-1" aria-label=${`Select ${key}`} checked=${chosen} onChange=${() => latest.current(key)} /></td>`}
        ${columns.map((column, n) => html`<td class=${column.className ?? ''} data-name=${column.name}>
          ${n === 0 && to ? html`<a href=${to(row)}>${column.cell(row)}</a>` : column.cell(row)}</td>`)}
      </tr>`;
      one = { row, columns, chosen, view };
    }
    drawn.current.set(key, one);
    return one.view;
  };
  useKeys([
    { keys: 'j', what: 'Next row', run: () => walk(1) },
    { keys: 'k', what: 'Previous row', run: () => walk(-1) },
    ...(onSelect ? [{ keys: 'x', what: 'Select the row', run: () => {
      const row = rows[at()];
      if (row) toggle(id(row));
    } }] : []),
  ]);
  const all = rows.length > 0 && rows.every((row) => selected?.has(id(row)));
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table class="rows">
    <caption class="hidden">${caption}</caption>
    <thead><tr>
      ${onSelect && html`<th class="select"><input type="checkbox" aria-label="Select all rows" checked=${all}
        onChange=${() => onSelect(new Set(all ? [] : rows.map(id)))} /></th>`}
      ${columns.map((column) => html`<th scope="col" class=${column.className ?? ''}>${column.name}</th>`)}
    </tr></thead>
    <tbody ref=${body}>${rows.map(line)}</tbody>
  </table></div>`;
}

/** Move the focus to another row, through all tables of the page. @param {number} step */
function walk(step) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('main tbody > tr')]);
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  const inside = /** @type {HTMLElement | null | undefined} */ (next?.querySelector('a, td:not(.select) button') ?? next?.querySelector('input'));
  if (next && !inside) next.tabIndex = -1;
  (inside ?? next)?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

/**
 * The way to further entries of a list whose cursor is in the page's address.
 * @param {{ route: import('./router.js').Route, next: string | null | undefined, what: string }} props  `what`: such as `entries`.
 */
export function Pager({ route, next, what }) {
  const later = route.query.has('next');
  if (!next && !later) return null;
  const first = new URLSearchParams(route.query);
  first.delete('next');
  const following = new URLSearchParams(first);
  if (next) following.set('next', next);
  return html`<nav class="pager" aria-label="Pages of the list">
    ${later && html`<a class="button" href=${href(route.path, first)}>First ${what}</a>`}
    ${next && html`<a class="button" href=${href(route.path, following)}>More ${what}</a>`}
  </nav>`;
}
