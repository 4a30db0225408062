/** Reads a job's output page by page while the tab is visible, and goes on where it stopped. */

import { ApiError, call, path } from './api.js';
import { bytesOf, LogLines, MOST } from './log-lines.js';
import { delayMs } from './poll.js';

/** @typedef {import('./types').LogPage} LogPage */

const TAIL = 1000;
const PAGE = 1000;
const LIVE_MS = 1000;
const SILENT_MS = 5000;

/** How long nothing came before the output counts as silent. */
const SILENT_AFTER_MS = 10_000;

/** One reader's position in the output of a job. */
export class OutputReader {
  /**
   * @param {string} id  The job's.
   * @param {string} level  Only records of this level and above; all output if empty.
   * @param {() => void} changed  Called when something of this has changed.
   */
  constructor(id, level, changed) {
    this.id = id;
    this.level = level;
    this.changed = changed;
    this.lines = new LogLines();
    /** @type {Error | null} */
    this.error = null;
    /** Whether no more will come. */
    this.complete = false;
    /** Whether there is output before the first line. */
    this.earlier = false;
    /** Whether the first page has been read. */
    this.begun = false;
    /** Whether reading waits for `more`, because there are many lines. */
    this.paused = false;
    this.active = false;
    this.ended = false;
    this.stop = new AbortController();
    /** @type {string | null} */
    this.cursor = null;
    this.wholly = false;
    this.heardAt = Date.now();
    this.failures = 0;
    this.busy = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.wake = () => void this.#next();
    document.addEventListener('visibilitychange', this.wake);
  }

  /** Begin: with the last lines, or with the first ones. @param {{ wholly: boolean }} how */
  open({ wholly }) {
    this.stop.abort();
    this.stop = new AbortController();
    this.lines = new LogLines();
    this.wholly = wholly;
    this.cursor = null;
    this.complete = this.begun = this.paused = this.earlier = this.busy = false;
    this.changed();
    void this.#next();
  }

  /** Go on after so many lines that the first ones have to go. */
  more() {
    this.paused = false;
    this.wholly = false;
    void this.#next();
  }

  /** What is known of the job from elsewhere. @param {{ active: boolean, ended: boolean }} job */
  know({ active, ended }) {
    const began = active && !this.active;
    this.active = active;
    this.ended = ended;
    if (this.complete && !ended) this.complete = false;
    else if (!began) return;
    void this.#next();
  }

  close() {
    this.stop.abort();
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.wake);
  }

  async #next() {
    clearTimeout(this.timer);
    const { signal } = this.stop;
    if (this.busy || this.complete || this.paused || document.hidden || signal.aborted) return;
    this.busy = true;
    try {
      const part = this.cursor === null && !this.wholly ? { tail: TAIL } : { next: this.cursor, limit: PAGE };
      const query = this.level ? { ...part, level: this.level } : part;
      /** @type {LogPage} */
      const page = await call('GET', path`v1/jobs/${this.id}/logs`, { query, signal });
      if (signal.aborted) return;
      this.#take(page);
      this.timer = setTimeout(this.wake, this.#delayMs(page));
    } catch (caught) {
      if (signal.aborted) return;
      this.error = caught instanceof Error ? caught : new Error(String(caught));
      this.failures += 1;
      const status = caught instanceof ApiError ? caught.status : 0;
      if (status === 0 || status === 429 || status >= 500) {
        this.timer = setTimeout(this.wake, delayMs(LIVE_MS, this.failures, this.error));
      }
      this.changed();
    }
    this.busy = false;
  }

  /** @param {LogPage} page */
  #take(page) {
    const first = page.entries[0];
    if (this.cursor === null && !this.wholly && first) this.earlier = first.seq > 1 || first.epoch > 1;
    const altered = !this.begun || this.error !== null || page.entries.length > 0 || page.complete;
    this.error = null;
    this.failures = 0;
    this.begun = true;
    this.cursor = page.next;
    this.complete = page.complete;
    if (page.entries.length) {
      this.lines.add(page.entries);
      this.heardAt = Date.now();
    }
    if (this.wholly && this.lines.count >= MOST && !page.complete) this.paused = true;
    if (altered) this.changed();
  }

  /** @param {LogPage} page */
  #delayMs(page) {
    if (page.more || (this.ended && page.entries.length > 0)) return 0;
    return this.active && Date.now() - this.heardAt < SILENT_AFTER_MS ? LIVE_MS : SILENT_MS;
  }
}

/** What a job said last, on standard error if it did; '' if nothing. @param {string} id @param {AbortSignal} signal */
export async function lastLine(id, signal) {
  /** @type {LogPage} */
  const page = await call('GET', path`v1/jobs/${id}/logs`, { query: { tail: 20 }, signal });
  const said = page.entries.filter((record) => record.text?.trim() && record.stream !== 'joblane');
  return (said.findLast((record) => record.stream === 'stderr') ?? said.at(-1))?.text?.trim().slice(0, 200) ?? '';
}

/**
 * The whole output of a job as the job wrote it, for a file.
 * @param {string} id
 * @param {(lines: number) => void} progress
 * @param {AbortSignal} signal
 * @returns {Promise<Blob>}
 */
export async function readWhole(id, progress, signal) {
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const pieces = [];
  /** @type {string | null} */
  let next = null;
  for (;;) {
    /** @type {LogPage} */
    const page = await call('GET', path`v1/jobs/${id}/logs`, { query: { next, limit: PAGE }, signal });
    pieces.push(...page.entries.map(bytesOf));
    progress(pieces.length);
    if (!page.more) return new Blob(pieces, { type: 'text/plain' });
    next = page.next;
  }
}
