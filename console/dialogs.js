/** Questions before an action, and messages after it. */

import { ApiError } from './api.js';
import { valueOf } from './fields.js';
import { html, Store, useEffect, useRef, useState, useStore } from './view.js';

/** @typedef {import('./view.js').Children} Children */

/**
 * @typedef {object} Question
 * @property {string} title  What is about to be done, as a question or a verb and its object.
 * @property {Children} [text]  To what, and with which consequence.
 * @property {string} action  Label of the button that does it.
 * @property {boolean} [danger]  Whether it cannot be undone.
 * @property {boolean} [reason]  Whether to ask why, for the audit trail.
 * @property {string} [choice]  Label of a box to tick.
 * @property {(answer: Answer | null) => void} answer
 */

/** @typedef {{ reason: string | null, chosen: boolean }} Answer */

/** @type {Store<Question | null>} */
const question = new Store(/** @type {Question | null} */ (null));

/**
 * @typedef {object} Message
 * @property {number} id
 * @property {string} text
 * @property {'good' | 'bad'} tone
 */

/** @type {Store<Message[]>} */
const messages = new Store(/** @type {Message[]} */ ([]));

let lastId = 0;

/**
 * Ask before an action; null if the reader does not want it.
 * @param {Omit<Question, 'answer'>} asked
 * @returns {Promise<Answer | null>}
 */
export function confirm(asked) {
  return new Promise((resolve) => {
    question.set({ ...asked, answer: resolve });
  });
}

/**
 * Say what happened; it leaves by itself unless it is bad news.
 * @param {string} text
 * @param {'good' | 'bad'} [tone]
 */
export function say(text, tone = 'good') {
  lastId += 1;
  const id = lastId;
  messages.set([...messages.value.slice(-3), { id, text, tone }]);
  if (tone === 'good') setTimeout(() => dismiss(id), 6000);
}

/**
 * Do something, and say that it is done or why not. Returns what `run` returns; null if it failed.
 * @template T
 * @param {string | ((result: T) => string)} done  Such as `Job cancelled`.
 * @param {() => Promise<T>} run
 * @returns {Promise<T | null>}
 */
export async function perform(done, run) {
  try {
    const result = await run();
    say(typeof done === 'function' ? done(result) : done);
    return result;
  } catch (error) {
    const fields = error instanceof ApiError ? error.errors.map((each) => ` ${each.field}: ${each.problem}.`) : [];
    say(`${error instanceof Error ? error.message : error}${fields.join('')}`, 'bad');
    return null;
  }
}

/** @param {number} id */
function dismiss(id) {
  messages.set(messages.value.filter((message) => message.id !== id));
}

/** Where questions and messages appear; once on the page. */
export function Dialogs() {
  const asked = useStore(question);
  const said = useStore(messages);
  return html`
    ${asked && html`<${Ask} key=${asked.title} asked=${asked} />`}
    <div class="messages" role="status" aria-live="polite">
      ${said.map((message) => html`<div key=${message.id} class=${`message ${message.tone}`}>
        <span aria-hidden="true">${message.tone === 'bad' ? '✕' : '✓'}</span><p>${message.text}</p>
        <button type="button" class="quiet" aria-label="Close the message" onClick=${() => dismiss(message.id)}>×</button>
      </div>`)}
    </div>`;
}

/** Opens a dialog with its component; the focus then goes back to where it was. */
export function useDialog() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const before = useRef(document.activeElement);
  useEffect(() => {
    dialog.current?.showModal();
    return () => /** @type {HTMLElement | null} */ (before.current)?.focus?.();
  }, []);
  return dialog;
}

/** A field for the reason of an action. @param {{ value: string, onValue: (value: string) => void }} props */
export function Reason({ value, onValue }) {
  return html`<label>Reason, for the audit trail (optional)
    <input type="text" maxlength="200" value=${value} onInput=${(/** @type {Event} */ event) => onValue(valueOf(event))} /></label>`;
}

/** @param {{ asked: Question }} props */
function Ask({ asked }) {
  const dialog = useDialog();
  const [reason, setReason] = useState('');
  const [chosen, setChosen] = useState(false);
  /** @param {Answer | null} answer */
  const close = (answer) => {
    question.set(null);
    asked.answer(answer);
  };
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault(); // the policy of the page lets no form leave it
    close({ reason: reason.trim() || null, chosen });
  };
  return html`<dialog ref=${dialog} aria-labelledby="asked" onCancel=${() => close(null)}>
    <form onSubmit=${submit}>
      <h2 id="asked">${asked.title}</h2>
      ${asked.text && html`<div>${asked.text}</div>`}
      ${asked.choice && html`<label class="line"><input type="checkbox" checked=${chosen} onChange=${() => setChosen(!chosen)} /> ${asked.choice}</label>`}
      ${asked.reason && html`<${Reason} value=${reason} onValue=${setReason} />`}
      <div class="actions">
        <button type="button" onClick=${() => close(null)}>Back</button>
        <button type="submit" class=${asked.danger ? 'danger' : 'primary'} autofocus>${asked.action}</button>
      </div>
    </form>
  </dialog>`;
}
