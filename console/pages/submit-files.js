/** The control for the input files of a submission. */

import { Field, valueOf } from '../fields.js';
import { Id } from '../parts.js';
import { bytes } from '../time.js';
import { html, useRef, useState } from '../view.js';

/** @typedef {import('../submit-form.js').Form} Form */

/** An entry of the field `inputs`. @typedef {{ path: string, sha256: string, mode?: string }} Input */

/** The permissions of a file that may be run. */
const EXECUTABLE = '0755';

/** @param {Form} form @returns {Input[]} */
export function inputsOf(form) {
  return form.inputs ? JSON.parse(form.inputs) : [];
}

/**
 * Files to choose, with the paths that they get; none is uploaded before the job is submitted.
 * @param {import('../fields.js').Editing<Form> & { files: Map<string, File>, onReading: (reading: boolean) => void }} props
 *   `files`: those that were chosen here, by their digests. `onReading`: whether one is being read.
 */
export function Inputs({ form, set, wrong, files, onReading }) {
  const [reading, setReading] = useState('');
  const [problem, setProblem] = useState('');
  const latest = useRef(form);
  latest.current = form;
  const inputs = inputsOf(form);
  const put = (/** @type {Input[]} */ next) => {
    const change = { inputs: next.length ? JSON.stringify(next) : '' };
    latest.current = /** @type {Form} */ ({ ...latest.current, ...change });
    set(change);
  };
  const change = (/** @type {number} */ at, /** @type {Partial<Input>} */ to) => put(inputs.map((each, n) => (n === at ? { ...each, ...to } : each)));
  const choose = async (/** @type {Event} */ event) => {
    const field = /** @type {HTMLInputElement} */ (event.target);
    const chosen = [...(field.files ?? [])];
    field.value = ''; // so that the same file can be chosen again
    setProblem('');
    onReading(true);
    try {
      const { digestOf } = await import('../uploads.js');
      for (const file of chosen) {
        setReading(file.name);
        const sha256 = await digestOf(file);
        files.set(sha256, file);
        put([...inputsOf(latest.current).filter((each) => each.path !== file.name), { path: file.name, sha256 }]);
      }
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setReading('');
    onReading(false);
  };
  return html`<${Field} field="inputs" label="Input files" wrong=${wrong}>
    <input type="file" multiple id="f-inputs" onChange=${choose} />
    ${reading && html`<p class="about" role="status">Reading ${reading}…</p>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${inputs.length > 0 && html`<ul class="inputs">${inputs.map((each, n) => html`<li key=${n}>
      <input type="text" aria-label=${`Path of input file ${n + 1} in the work directory`} value=${each.path} spellcheck=${false}
        onInput=${(/** @type {Event} */ event) => change(n, { path: valueOf(event) })} />
      <label class="line"><input type="checkbox" checked=${each.mode === EXECUTABLE} onChange=${() => change(n, { mode: each.mode === EXECUTABLE ? '0644' : EXECUTABLE })} /> Executable</label>
      <span class="about">${files.has(each.sha256) ? bytes(files.get(each.sha256)?.size ?? 0) : html`<${Id} text=${each.sha256} short=${8} />`}</span>
      <button type="button" class="quiet" aria-label=${`Remove ${each.path}`} onClick=${() => put(inputs.filter((_, at) => at !== n))}>Remove</button></li>`)}</ul>`}
  <//>`;
}
