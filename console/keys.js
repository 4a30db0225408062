/** Keyboard: single keys and sequences such as `g j`, and the list of them for the help. */

import { Store, useEffect, useRef } from './view.js';

const SEQUENCE_MS = 1200;
const PREFERENCE = 'joblane.no-shortcuts';

/** Whether shortcuts work: speech input types single keys (WCAG 2.1.4). @type {Store<boolean>} */
export const enabled = new Store(globalThis.localStorage?.getItem(PREFERENCE) !== '1');

/** Switch all shortcuts on or off, for good. */
export function toggleShortcuts() {
  enabled.set(!enabled.value);
  localStorage.setItem(PREFERENCE, enabled.value ? '0' : '1');
}

/**
 * @typedef {object} Shortcut
 * @property {string} keys  One key, or two with a space: `g j`. Names as in KeyboardEvent.key.
 * @property {string} what  What it does, for the help.
 * @property {(event: KeyboardEvent) => void} run
 */

/** Shortcuts of the components that are on the page, the latest last. @type {Store<Shortcut[]>} */
export const shortcuts = new Store(/** @type {Shortcut[]} */ ([]));

let pending = '';
let pendingAt = 0;

/**
 * The shortcut of a key, after the key before it.
 * @param {readonly Shortcut[]} all
 * @param {string} before  The key before, if it may begin a sequence; else empty.
 * @param {string} key
 * @returns {{ found: Shortcut | null, pending: string }}
 */
export function match(all, before, key) {
  const latest = [...all].reverse();
  const sequence = before && latest.find((shortcut) => shortcut.keys === `${before} ${key}`);
  if (sequence) return { found: sequence, pending: '' };
  const single = latest.find((shortcut) => shortcut.keys === key);
  if (single) return { found: single, pending: '' };
  return { found: null, pending: latest.some((shortcut) => shortcut.keys.startsWith(`${key} `)) ? key : '' };
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!enabled.value || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector('dialog[open]')) return;
  if (isTyping(event.target)) {
    // Out of the field, so that j and k walk what was found.
    if (event.key === 'Escape') /** @type {HTMLElement} */ (event.target).blur();
    return;
  }
  if (event.key === 'Enter' && isOperable(event.target)) return;
  const before = Date.now() - pendingAt < SEQUENCE_MS ? pending : '';
  const result = match(shortcuts.value, before, event.key);
  pending = result.pending;
  pendingAt = Date.now();
  if (!result.found) return;
  event.preventDefault();
  result.found.run(event);
}

globalThis.document?.addEventListener('keydown', onKey);

/**
 * Have shortcuts while the component is on the page.
 * @param {Shortcut[]} list  The keys must not change from one drawing to the next; `run` may.
 */
export function useKeys(list) {
  const latest = useRef(list);
  latest.current = list;
  useEffect(() => {
    const own = list.map((shortcut, n) => ({
      ...shortcut,
      run: (/** @type {KeyboardEvent} */ event) => latest.current[n]?.run(event),
    }));
    shortcuts.set([...shortcuts.value, ...own]);
    return () => shortcuts.set(shortcuts.value.filter((shortcut) => !own.includes(shortcut)));
  }, [list.map((shortcut) => shortcut.keys).join('\n')]);
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
    && !(target instanceof HTMLInputElement && /^(checkbox|radio|button)$/.test(target.type));
}

/** Whether Enter has a meaning of its own there. @param {EventTarget | null} target */
function isOperable(target) {
  return target instanceof HTMLElement && /^(A|BUTTON|SUMMARY)$/.test(target.tagName);
}
