/** Views: `html` templates over Preact, its hooks, and values that several components share. */

import htm from './vendor/htm.js';
import { useEffect, useRef, useState } from './vendor/hooks.js';
import { h } from './vendor/preact.js';

export { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/hooks.js';
export { createContext, Fragment, render } from './vendor/preact.js';

/** What may stand between the tags of a component. @typedef {any} Children */

/** Tagged template that makes Preact elements. Values become text or attributes, never markup. */
export const html = htm.bind(h);

/**
 * A value that components share and that may change at any time.
 * @template T
 */
export class Store {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<(value: T) => void>} */
    this.listeners = new Set();
  }

  /** @param {T} value */
  set(value) {
    if (value === this.value) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener(value);
  }
}

/**
 * The value of a store; the component is drawn again when it changes.
 * @template T
 * @param {Store<T>} store
 * @returns {T}
 */
export function useStore(store) {
  return usePicked(store, same);
}

/**
 * What `pick` makes of a store's value; the component is drawn again only when that changes.
 * @template T
 * @template P
 * @param {Store<T>} store
 * @param {(value: T) => P} pick
 * @returns {P}
 */
export function usePicked(store, pick) {
  const [, draw] = useState({});
  const value = pick(store.value);
  const shown = useRef({ value, pick });
  shown.current = { value, pick };
  useEffect(() => {
    const listener = () => {
      if (shown.current.pick(store.value) !== shown.current.value) draw({});
    };
    store.listeners.add(listener);
    listener(); // it may have changed since it was drawn
    return () => {
      store.listeners.delete(listener);
    };
  }, [store]);
  return value;
}

/** @template T @param {T} value */
function same(value) {
  return value;
}
