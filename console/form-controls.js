/** Controls of forms: each with its label, and what is wrong with its value beside it. */

import { valueOf } from './fields.js';
import { html } from './view.js';

/**
 * What the controls of a form share; F is the form, whose values are texts.
 * @template {Record<string, string>} F
 * @typedef {{ form: F, set: (change: Partial<F>) => void, wrong: readonly { field: keyof F, problem: string }[] }} Editing
 */

/** @typedef {Editing<any> & { field: string, label: string, hint?: string }} Control */

/** @param {Control & { children?: any }} props */
function Field({ field, label, wrong, children }) {
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
  return html`<${Field} ...${props}><select ...${attributes(props)}>${props.options.map((option) => html`<option key=${option} value=${option} selected=${option === props.form[props.field]}>${option}</option>`)}</select><//>`;
}
