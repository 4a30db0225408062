/** Fields of filters, whose values are in the address of the page, and controls of forms. */

import { go, href } from './router.js';
import { html } from './view.js';

/**
 * Change the query of the page's address; an empty value leaves it out. The history keeps one entry.
 * @param {import('./router.js').Route} route
 * @param {Record<string, string | null>} changes
 */
export function setQuery(route, changes) {
  const query = new URLSearchParams(route.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  go(href(route.path, query), { replace: true });
}

/** The text of a field that an event is about. @param {Event} event */
export function valueOf(event) {
  return /** @type {HTMLInputElement} */ (event.target).value;
}

/**
 * A field to search with; `/` puts the focus there.
 * @param {{ label: string, value: string, onValue: (value: string) => void, hint?: string }} props
 */
export function SearchField({ label, value, onValue, hint = '' }) {
  return html`<label>${label}<input type="search" value=${value} placeholder=${hint} onInput=${(/** @type {Event} */ event) => onValue(valueOf(event))} /></label>`;
}

/**
 * A choice of one value.
 * @param {{ label: string, value: string, options: readonly (readonly [string, string])[], onValue: (value: string) => void }} props  Options are values with their labels.
 */
export function Choice({ label, value, options, onValue }) {
  return html`<label>${label}<select value=${value} onChange=${(/** @type {Event} */ event) => onValue(valueOf(event))}>
    ${options.map(([option, text]) => html`<option value=${option} selected=${option === value}>${text}</option>`)}</select></label>`;
}

/**
 * What the controls of a form share; F is the form, whose values are texts.
 * @template {Record<string, string>} F
 * @typedef {{ form: F, set: (change: Partial<F>) => void, wrong: readonly { field: keyof F, problem: string }[] }} Editing
 */

/** @typedef {Editing<any> & { field: string, label: string, hint?: string }} Control */

/** A control with its label, and what is wrong with it. @param {Pick<Control, 'field' | 'label' | 'wrong'> & { children?: any }} props */
export function Field({ field, label, wrong, children }) {
  const mine = wrong.filter((each) => each.field === field);
  return html`<div class="field"><label for=${`f-${field}`}>${label}</label>${children}
    ${mine.length > 0 && html`<p class="problem" id=${`p-${field}`}>${mine.map((each) => each.problem).join('; ')}</p>`}</div>`;
}

/** Attributes of a field's control. @param {Control} props */
function attributes({ field, form, set, wrong }) {
  const bad = wrong.some((each) => each.field === field);
  return {
    id: `f-${field}`, value: form[field], onInput: (/** @type {Event} */ event) => set({ [field]: valueOf(event) }),
    ...(bad ? { 'aria-invalid': 'true', 'aria-describedby': `p-${field}` } : {}),
  };
}

/** @param {Control & { type?: string, step?: string }} props */
export function Text(props) {
  return html`<${Field} ...${props}><input type=${props.type ?? 'text'} step=${props.step} placeholder=${props.hint ?? ''} autocomplete="off" spellcheck=${false} ...${attributes(props)} /><//>`;
}

/** @param {Control & { rows: number }} props */
export function Area(props) {
  return html`<${Field} ...${props}><textarea rows=${props.rows} placeholder=${props.hint ?? ''} spellcheck=${false} ...${attributes(props)}></textarea><//>`;
}

/** @param {Control & { options: readonly string[] }} props */
export function Pick(props) {
  return html`<${Field} ...${props}><select ...${attributes(props)}>${props.options.map((option) => html`<option key=${option} value=${option} selected=${option === props.form[props.field]}>${option || props.hint}</option>`)}</select><//>`;
}
