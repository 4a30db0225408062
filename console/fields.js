/** Fields of filters; their values are in the address of the page. */

import { go, href } from './router.js';
import { html } from './view.js';

/**
 * Change the query of the page's address; an empty value leaves it out. The history keeps one entry.
 * @param {import('./router.js').Route} route
 * @param {Record<string, string | null>} changes
 */
export function setQuery(route, changes) {
  const query = new URLSearchParams(route.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  go(href(route.path, query), { replace: true });
}

/** The text of a field that an event is about. @param {Event} event */
export function valueOf(event) {
  return /** @type {HTMLInputElement} */ (event.target).value;
}

/**
 * A field to search with; `/` puts the focus there.
 * @param {{ label: string, value: string, onValue: (value: string) => void, hint?: string }} props
 */
export function SearchField({ label, value, onValue, hint = '' }) {
  return html`<label>${label}<input type="search" value=${value} placeholder=${hint} onInput=${(/** @type {Event} */ event) => onValue(valueOf(event))} /></label>`;
}

/**
 * A choice of one value.
 * @param {{ label: string, value: string, options: readonly (readonly [string, string])[], onValue: (value: string) => void }} props  Options are values with their labels.
 */
export function Choice({ label, value, options, onValue }) {
  return html`<label>${label}<select value=${value} onChange=${(/** @type {Event} */ event) => onValue(valueOf(event))}>
    ${options.map(([option, text]) => html`<option value=${option} selected=${option === value}>${text}</option>`)}</select></label>`;
}
