/** Actions on many jobs: page by page or one by one, with progress, until the end or until stopped. */

import { ApiError } from './api.js';
import { href } from './router.js';
import { html, useEffect, useRef, useState } from './view.js';

const TRIES = 6;
const AT_ONCE = 4;

/** @typedef {{ id: string | null, index?: number | null, detail: string }} LeftOut  A member of a group has its index, and no id before it begins. */

/**
 * @typedef {object} Progress
 * @property {number} examined  Jobs that were looked at.
 * @property {number} done  Jobs that were changed.
 * @property {LeftOut[]} refused  Jobs that were left out, and why.
 * @property {number} [already]  Jobs that were left out because it was done with them before.
 */

/** @typedef {{ examined: number, refused: LeftOut[], next: string | null } & Record<string, any>} Answer */

/**
 * Ask page after page until there is no next one.
 * @param {(next: string | null) => Promise<Answer>} page
 * @param {string} count  Name of the field of an answer that says how many jobs were changed.
 * @param {(progress: Progress) => void} report
 * @param {AbortSignal} signal
 */
export async function sweepPages(page, count, report, signal) {
  /** @type {Progress} */
  let progress = { examined: 0, done: 0, refused: [] };
  /** @type {string | null} */
  let next = null;
  do {
    const at = /** @type {string | null} */ (next);
    const answer = await patiently(() => page(at), signal);
    next = answer.next;
    progress = {
      examined: progress.examined + answer.examined,
      done: progress.done + (answer[count] ?? 0),
      refused: [...progress.refused, ...answer.refused],
      ...(answer.already ? { already: (progress.already ?? 0) + answer.already } : {}),
    };
    report(progress);
  } while (next && !signal.aborted);
}

/**
 * Do something with each of these jobs, some at once; one that is refused does not stop the rest.
 * @param {readonly string[]} ids
 * @param {(id: string) => Promise<unknown>} run
 * @param {(progress: Progress) => void} report
 * @param {AbortSignal} signal
 */
export async function sweepEach(ids, run, report, signal) {
  /** @type {Progress} */
  let progress = { examined: 0, done: 0, refused: [] };
  const rest = [...ids];
  /** @param {string} id */
  const one = async (id) => {
    try {
      await patiently(() => run(id), signal);
      progress = { ...progress, examined: progress.examined + 1, done: progress.done + 1 };
    } catch (error) {
      if (!(error instanceof ApiError) || error.status < 400 || error.status === 401) throw error;
      progress = { ...progress, examined: progress.examined + 1, refused: [...progress.refused, { id, detail: error.message }] };
    }
    report(progress);
  };
  const worker = async () => {
    for (let id = rest.shift(); id !== undefined && !signal.aborted; id = rest.shift()) await one(id);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/**
 * Try again while the API asks to (429) or fails: an action of many requests meets both.
 * @template T
 * @param {() => Promise<T>} run
 * @param {AbortSignal} signal
 * @returns {Promise<T>}
 */
async function patiently(run, signal) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await run();
    } catch (error) {
      const passing = error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
      if (!passing || tries === TRIES || signal.aborted) throw error;
      await pause(Math.max(error.retryAfterS * 1000, 250 * 2 ** tries), signal);
    }
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}

/**
 * @typedef {object} Sweep
 * @property {string} title  What is done: `Restart failed jobs`.
 * @property {string} verb  What happened to a job that was changed: `restarted`.
 * @property {number | null} of  How many there are, if that is known.
 * @property {Progress} progress
 * @property {'running' | 'done' | 'stopped' | 'failed'} phase
 * @property {string} problem  Why it failed.
 */

/**
 * One action on many jobs at a time; it stops when the reader leaves the page.
 * @param {() => void} after  Called when it ended, however it did.
 */
export function useSweep(after) {
  const [sweep, set] = useState(/** @type {Sweep | null} */ (null));
  const controller = useRef(new AbortController());
  useEffect(() => () => controller.current.abort(), []);
  /**
   * @param {{ title: string, verb: string, of?: number }} what
   * @param {(report: (progress: Progress) => void, signal: AbortSignal) => Promise<void>} run
   */
  const start = async ({ title, verb, of }, run) => {
    controller.current = new AbortController();
    const { signal } = controller.current;
    set({ title, verb, of: of ?? null, progress: { examined: 0, done: 0, refused: [] }, phase: 'running', problem: '' });
    /** @param {Partial<Sweep>} change */
    const update = (change) => set((before) => before && { ...before, ...change });
    try {
      await run((progress) => update({ progress }), signal);
      update({ phase: signal.aborted ? 'stopped' : 'done' });
    } catch (error) {
      update({ phase: 'failed', problem: error instanceof Error ? error.message : String(error) });
    }
    after();
  };
  return { sweep, start, stop: () => controller.current.abort(), close: () => set(null) };
}

/** What an action has done so far. @param {Sweep} sweep */
export function sentence({ verb, of, progress: { examined, done, refused, already }, phase, problem }) {
  const state = { running: 'running; stay on this page.', done: 'finished.', stopped: 'stopped.', failed: `it ended early. ${problem.replace(/\.?$/, '.')}` }[phase];
  const left = `${refused.length || 'none'} left out${already ? `, ${already} ${verb} before` : ''}`;
  return `${state} ${of === null ? `${done} ${verb}, ${left}, ${examined} examined` : `${done} of ${of} ${verb}, ${left}`}.`;
}

/** Progress and result of an action on many jobs. @param {{ of: ReturnType<typeof useSweep> }} props */
export function SweepProgress({ of: { sweep, stop, close } }) {
  if (!sweep) return null;
  const { progress, phase } = sweep;
  const tone = phase === 'failed' ? 'bad' : progress.refused.length ? 'warn' : '';
  return html`<section class=${`notice sweep ${tone}`} aria-label=${sweep.title}>
    <p role="status"><strong>${sweep.title}:</strong> ${sentence(sweep)}</p>
    ${phase === 'running' && html`${sweep.of && html`<progress max=${sweep.of} value=${progress.examined} aria-label=${sweep.title}></progress>`}<button type="button" onClick=${stop}>Stop</button>`}
    ${phase !== 'running' && html`<button type="button" class="quiet" onClick=${close}>Close</button>`}
    ${progress.refused.length > 0 && html`<details><summary>Jobs that were left out</summary>
      <ul>${progress.refused.slice(0, 200).map(({ id, index, detail }) => html`<li>${index != null && `Index ${index} `}${id && html`<a href=${href(['jobs', id])}><code>${id}</code></a>`} ${detail}</li>`)}</ul>
      ${progress.refused.length > 200 && html`<p class="about">and ${progress.refused.length - 200} more</p>`}</details>`}
  </section>`;
}
