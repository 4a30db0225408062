/** Addresses of the console: `#/jobs/01J...?state=failed`. All of a page's filters are in its address. */

import { Store } from './view.js';

/**
 * @typedef {object} Route
 * @property {string[]} path  Decoded segments: `['jobs', '01J...']`; empty for the overview.
 * @property {URLSearchParams} query
 */

/**
 * Read an address; an undecodable one is the overview.
 * @param {string} hash  Such as `#/jobs?state=failed`.
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path = '', query = ''] = splitOnce(hash.replace(/^#\/?/, ''), '?');
  try {
    return { path: path.split('/').filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
  } catch {
    return { path: [], query: new URLSearchParams() };
  }
}

/**
 * Write an address, for `href`.
 * @param {string[]} path
 * @param {URLSearchParams | Record<string, string | string[] | null | undefined>} [query]  Without empty values.
 * @returns {string}
 */
export function href(path, query = {}) {
  const params = query instanceof URLSearchParams ? query : searchOf(query);
  const text = params.toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}

/**
 * @param {Record<string, string | string[] | null | undefined>} values
 * @returns {URLSearchParams}
 */
export function searchOf(values) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one) params.append(name, one);
  }
  return params;
}

/** @type {Store<Route>} */
export const route = new Store(parseRoute(globalThis.location?.hash ?? ''));

/**
 * Go to an address; with `replace` the one before it leaves the history.
 * @param {string} address  As `href` writes it.
 * @param {{ replace?: boolean }} [options]
 */
export function go(address, { replace = false } = {}) {
  if (!replace) {
    globalThis.location.hash = address;
    return;
  }
  globalThis.history.replaceState(null, '', address);
  route.set(parseRoute(address));
}

globalThis.addEventListener?.('hashchange', () => route.set(parseRoute(globalThis.location.hash)));

/**
 * @param {string} text
 * @param {string} mark
 * @returns {string[]}
 */
function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
