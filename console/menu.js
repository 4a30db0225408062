/** A menu of actions behind a button. */

import { html, useEffect, useRef } from './view.js';

/** @param {{ name: string, children?: import('./view.js').Children }} props  It closes at a choice, at Escape, and when the focus or a click is elsewhere. */
export function Menu({ name, children }) {
  const menu = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  const close = () => menu.current?.removeAttribute('open');
  useEffect(() => {
    const outside = (/** @type {Event} */ event) => menu.current?.contains(/** @type {Node} */ (event.target)) || close();
    for (const kind of ['pointerdown', 'focusin']) addEventListener(kind, outside);
    return () => ['pointerdown', 'focusin'].forEach((kind) => removeEventListener(kind, outside));
  }, []);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key !== 'Escape') return;
    close();
    menu.current?.querySelector('summary')?.focus();
  };
  return html`<details class="menu" ref=${menu} onKeyDown=${onKey}><summary class="button">${name} <span aria-hidden="true">▾</span></summary><div onClick=${close}>${children}</div></details>`;
}
