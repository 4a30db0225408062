/** Who is logged in, what they may do, and the figures that all pages share. */

import { call } from './api.js';
import { Store } from './view.js';

/** @typedef {'jobs.submit' | 'jobs.read' | 'jobs.cancel' | 'admin.read' | 'admin.mutate' | 'platform.read' | 'platform.mutate'} Scope */

/**
 * The answer of `GET /v1/summary`.
 * @typedef {object} Summary
 * @property {{ kind: string, name: string, tenant: string | null, role: string | null, scopes: Scope[] }} caller
 * @property {string} now
 * @property {{ counted_at: string, by_state: Record<string, number> } | null} jobs
 * @property {{ limit: string, allowed: number, current: number | null }[]} limits
 * @property {{ alive: number, slots: number, running: number, free: number, troubled: number, cordoned: number, more: boolean }} agents
 * @property {{ name: string, template: string }[]} links
 * @property {Record<string, { usd_per_slot_hour_min: number, usd_per_slot_hour_max: number }>} prices
 * @property {string} version
 * @property {string} deployment
 */

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
