/** Who is logged in, what they may do, and the figures that all pages share. */

import { call } from './api.js';
import { Store } from './view.js';

/** @typedef {import('./types').Summary} Summary */
/** @typedef {Summary['caller']['scopes'][number]} Scope */

/** The last answer of `GET /v1/summary`; null before the first. @type {Store<Summary | null>} */
export const summary = new Store(/** @type {Summary | null} */ (null));

/** Milliseconds between two requests for it. */
export const SUMMARY_MS = 10_000;

/** @param {AbortSignal} signal */
export async function readSummary(signal) {
  const found = await call('GET', 'v1/summary', { signal });
  summary.set(found);
  return found;
}

/**
 * Whether the reader's role and token allow it. The API decides; this only leaves out what it would refuse.
 * @param {Scope} scope
 */
export function can(scope) {
  return summary.value?.caller.scopes.includes(scope) ?? false;
}

/** Whether one of them is allowed. @param {...Scope} scopes */
export function canAny(...scopes) {
  return scopes.some(can);
}
