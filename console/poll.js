/** Reading again and again: only while the tab is visible, more rarely while the API fails. */

import { ApiError, connection } from './api.js';
import { Store, useCallback, useEffect, useRef, useState } from './view.js';

const MOST_MS = 30_000;

/**
 * @typedef {object} Trouble
 * @property {number} since  When it last succeeded (Unix milliseconds).
 * @property {Error} error  Its last error.
 */

/** Readings that fail while the page shows what they had read before. @type {Store<Trouble[]>} */
export const troubles = new Store(/** @type {Trouble[]} */ ([]));

/**
 * @template T
 * @typedef {object} Polled
 * @property {T | null} data  The last answer; kept while later requests fail.
 * @property {Error | null} error  Why the last request failed; null if it succeeded.
 * @property {number} at  When `data` came (Unix milliseconds).
 * @property {() => void} refresh  Reads now, and once more if a request is on its way: its answer may be older than what was done.
 */

/**
 * Milliseconds until the next request.
 * @param {number} everyMs
 * @param {number} failures  Requests that failed in a row.
 * @param {Error | null} error  The last one's error.
 */
export function delayMs(everyMs, failures, error) {
  if (!failures) return everyMs;
  const asked = error instanceof ApiError ? error.retryAfterS * 1000 : 0;
  return Math.max(asked, Math.min(MOST_MS, Math.max(1000, everyMs) * 2 ** Math.min(failures, 6)));
}

/**
 * Read at once, then every `everyMs` milliseconds while the tab is visible; once if that is 0.
 *
 * Starts anew, without data, when one of `deps` changes.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} read
 * @param {number} everyMs
 * @param {unknown[]} deps
 * @returns {Polled<T>}
 */
export function usePoll(read, everyMs, deps) {
  const [state, set] = useState(/** @type {{ data: T | null, error: Error | null, at: number }} */ ({ data: null, error: null, at: 0 }));
  const turn = useRef(/** @type {() => void} */ (() => {}));
  const reader = useRef(read);
  reader.current = read;
  const interval = useRef(everyMs);
  interval.current = everyMs;

  useEffect(() => {
    const controller = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    let failures = 0;
    let busy = false;
    let asked = false;
    let readAt = 0;
    /** @type {Trouble | null} */
    let trouble = null;
    set({ data: null, error: null, at: 0 });

    /** @param {Error | null} error */
    function tell(error) {
      const present = error && readAt ? { since: readAt, error } : null;
      if (!trouble && !present) return;
      const others = troubles.value.filter((one) => one !== trouble);
      troubles.set(present ? [...others, present] : others);
      trouble = present;
    }

    async function next() {
      clearTimeout(timer);
      if (document.hidden || controller.signal.aborted) return;
      if (busy) {
        asked = true;
        return;
      }
      busy = true;
      asked = false;
      /** @type {Error | null} */
      let error = null;
      try {
        const data = await reader.current(controller.signal);
        if (controller.signal.aborted) return;
        failures = 0;
        readAt = Date.now();
        set({ data, error: null, at: readAt });
      } catch (caught) {
        if (controller.signal.aborted) return;
        failures += 1;
        error = caught instanceof Error ? caught : new Error(String(caught));
        set((before) => ({ ...before, error }));
      }
      busy = false;
      tell(error);
      if (asked) {
        void next();
        return;
      }
      const again = failures > 0 ? isWorthAnother(error) : interval.current > 0;
      if (again) timer = setTimeout(next, delayMs(interval.current, failures, error));
    }

    turn.current = next;
    // Once the tab is visible again, and once another reading has reached the API again.
    const wake = () => {
      if (!busy && (interval.current > 0 || failures > 0 || !readAt)) void next();
    };
    const reached = () => {
      if (connection.value.lostAt === null && failures > 0) wake();
    };
    document.addEventListener('visibilitychange', wake);
    addEventListener('online', wake);
    connection.listeners.add(reached);
    void next();
    return () => {
      controller.abort();
      clearTimeout(timer);
      tell(null);
      connection.listeners.delete(reached);
      document.removeEventListener('visibilitychange', wake);
      removeEventListener('online', wake);
    };
  }, deps);

  const refresh = useCallback(() => turn.current(), []);
  return { ...state, refresh };
}

/**
 * Whether a request that failed may succeed later: what is missing or forbidden stays so.
 * @param {Error | null} error
 */
function isWorthAnother(error) {
  return !(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status >= 500;
}
