/** Reading lists of the API that come in pages. */

import { call } from './api.js';
import { usePoll } from './poll.js';
import { useRef } from './view.js';

/** Most entries that the API answers at once. */
export const PAGE = 100;

/** Requests for one reading, beyond those that full pages would take. */
const SPARSE = 4;

/**
 * @template R
 * @typedef {object} List
 * @property {R[]} entries
 * @property {string | null} next  Cursor of what follows; null at the end.
 */

/**
 * Read up to `most` entries of a list, page by page; from `query.next` on if it is there.
 *
 * A filter that few entries match has pages without any: it stops after some, with a cursor.
 * @template R
 * @param {string} where
 * @param {Record<string, any>} query
 * @param {number} most
 * @param {AbortSignal} [signal]
 * @returns {Promise<List<R>>}
 */
export async function readList(where, query, most, signal) {
  /** @type {R[]} */
  const entries = [];
  /** @type {string | null} */
  let next = query.next ?? null;
  let requests = 0;
  do {
    /** @type {List<R>} */
    const page = await call('GET', where, {
      query: { ...query, limit: Math.min(PAGE, most - entries.length), next },
      ...(signal ? { signal } : {}),
    });
    entries.push(...page.entries);
    next = page.next;
    requests += 1;
  } while (next && entries.length < most && requests < Math.ceil(most / PAGE) + SPARSE);
  return { entries, next };
}

/**
 * Show up to `most` entries of a list, and read it again every `everyMs` for each page of it.
 * @template R
 * @param {string} where
 * @param {Record<string, any>} query
 * @param {{ most?: number, everyMs?: number }} [options]
 * @returns {import('./poll.js').Polled<List<R>>}
 */
export function useList(where, query, { most = PAGE, everyMs = 5000 } = {}) {
  const known = useRef(/** @type {Map<string, R>} */ (new Map()));
  return usePoll(
    async (signal) => {
      const list = /** @type {List<R>} */ (await readList(where, query, most, signal));
      // What has not changed stays the same object, so that it is not drawn again.
      const texts = list.entries.map((entry) => JSON.stringify(entry));
      const entries = list.entries.map((entry, n) => known.current.get(texts[n] ?? '') ?? entry);
      known.current = new Map(entries.map((entry, n) => [texts[n] ?? '', entry]));
      return { ...list, entries };
    },
    everyMs * Math.ceil(most / PAGE),
    [where, JSON.stringify(query), most],
  );
}
