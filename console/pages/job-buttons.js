/** The actions on one job as buttons, only those that the caller and the state allow. */

import { call, path } from '../api.js';
import { confirm, perform, say } from '../dialogs.js';
import { actionsOf, isGroup, placed } from '../job-actions.js';
import { useKeys } from '../keys.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { html, useEffect, useRef, useState } from '../view.js';

/** @typedef {import('../types').Job} Job */
/** @typedef {import('../job-actions.js').Action} Action */

/**
 * @typedef {object} Doing
 * @property {string} label  Of the button.
 * @property {string} title  The question before it.
 * @property {string} text  What follows from it.
 * @property {string} done  What is said after it.
 * @property {boolean} [danger]
 */

/** @type {Record<Exclude<Action, 'again' | 'edit'>, Doing>} */
const DOING = {
  cancel: { label: 'Cancel', title: 'Cancel the job?', text: 'If it runs, its agent stops it: SIGTERM first, SIGKILL after the grace period.', done: 'Cancellation requested', danger: true },
  retry: { label: 'Retry', title: 'Retry the job?', text: 'It starts again under the same id, with its attempts counted from zero.', done: 'The job starts again' },
  dismiss: { label: 'Dismiss', title: 'Dismiss the dead job?', text: 'It leaves the dead letters and does not run again.', done: 'Job dismissed', danger: true },
  resubmit: { label: 'Resubmit', title: 'Submit the job again?', text: 'A new job with the same fields is made; both link to each other.', done: 'Submitted again' },
  hide: { label: 'Hide', title: 'Hide the job?', text: 'Lists leave it out. Nothing else changes.', done: 'Job hidden' },
  unhide: { label: 'Unhide', title: 'Show the job in lists again?', text: '', done: 'Job is in lists again' },
  delete: { label: 'Delete', title: 'Delete the job?', text: 'The job and its output are deleted for good. Its submission stays in the audit trail.', done: 'Job deleted', danger: true },
};

/**
 * Send the request of an action.
 * @param {Exclude<Action, 'again' | 'edit'>} action
 * @param {Job} job
 * @param {string | null} reason
 * @param {{ key: string, sameVersion: boolean }} how  The Idempotency-Key of a resubmission; whether a typed job stays as it is.
 */
function send(action, job, reason, { key, sameVersion }) {
  const body = sameVersion ? { reason, same_version: true } : { reason };
  if (action === 'delete') return call('DELETE', path`v1/jobs/${job.id}`, { body });
  if (action === 'dismiss') return call('POST', path`v1/dlq/${job.id}/dismiss`, { body });
  if (action === 'retry' && !can('jobs.submit')) return call('POST', path`v1/dlq/${job.id}/replay`, { body });
  if (isGroup(job) && (action === 'cancel' || action === 'retry')) return members(action, job.id, body);
  return call('POST', path`v1/jobs/${job.id}/${action}`, { body, headers: key ? { 'Idempotency-Key': key } : {} });
}

/**
 * Cancel or retry the members of a group, page by page.
 * @param {'cancel' | 'retry'} action
 * @param {string} id
 * @param {{ reason: string | null, same_version?: boolean }} body
 * @param {AbortSignal} [signal]
 */
export async function members(action, id, body, signal) {
  let next = null;
  do {
    /** @type {{ next: string | null }} */
    const answer = await call('POST', path`v1/groups/${id}/${action}`, { query: { next }, body, ...(signal ? { signal } : {}) });
    next = answer.next;
  } while (next);
}

/** A menu of actions behind a button. @param {{ name: string, children?: import('../view.js').Children }} props  It closes at a choice, at Escape, and when the focus or a click is elsewhere. */
function Menu({ name, children }) {
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

/** @param {{ job: Job, failed?: boolean, refresh: () => void }} props  `failed`: whether it is a group of which members failed. */
export function Actions({ job, failed, refresh }) {
  const allowed = actionsOf(job, can, failed);
  const [edit, setEdit] = useState(/** @type {import('./job-edit.js') | null} */ (null));
  const beginEdit = () => import('./job-edit.js').then(setEdit, () => say('The form could not be loaded.', 'bad'));
  /** @param {Exclude<Action, 'again' | 'edit'>} action */
  const act = async (action) => {
    const doing = DOING[action];
    const text = isGroup(job) && action !== 'resubmit' ? `${doing.text} This holds for its members.` : doing.text;
    const answer = await confirm({ title: doing.title, text, action: doing.label, danger: doing.danger ?? false, reason: true, choice: job.type_version !== null && action === 'retry' ? `Stay with version ${job.type_version}` : '' });
    if (!answer) return;
    const key = action === 'resubmit' ? crypto.randomUUID() : '';
    const result = await perform(doing.done, async () => (await send(action, job, answer.reason, { key, sameVersion: answer.chosen })) ?? {});
    if (result === null) return;
    if (action === 'delete') go(href(['jobs']), { replace: true });
    else if (action === 'resubmit') go(href(['jobs', result.id]));
    else refresh();
  };
  useKeys([
    { keys: 'c', what: 'Cancel the job', run: () => allowed.includes('cancel') && void act('cancel') },
    { keys: 'r', what: 'Retry the job', run: () => allowed.includes('retry') && void act('retry') },
    { keys: 'e', what: 'Submit it again with changes', run: () => allowed.includes('again') && go(href(['submit'], { from: job.id })) },
  ]);
  /** @param {Action} action */
  const button = (action) => {
    if (action === 'again') return html`<a class="button" key="again" href=${href(['submit'], { from: job.id })}>Submit again with changes</a>`;
    if (action === 'edit') return html`<button type="button" key="edit" onClick=${beginEdit}>Edit</button>`;
    const doing = DOING[action];
    return html`<button type="button" key=${action} class=${doing.danger ? 'danger' : action === 'retry' ? 'primary' : ''} onClick=${() => act(action)}>${doing.label}</button>`;
  };
  const [first, rest] = placed(allowed, job);
  return html`${first.map(button)}${rest.length > 0 && html`<${Menu} name="More">${rest.map(button)}<//>`}${edit && html`<${edit.EditJob} job=${job} close=${() => setEdit(null)} refresh=${refresh} />`}`;
}
