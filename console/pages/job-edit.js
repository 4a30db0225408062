/** The dialog that edits a job which waits. Loaded when it is opened. */

import { ApiError, call, path } from '../api.js';
import { Reason, say, useDialog } from '../dialogs.js';
import { controlOf, formOf, patchOf } from '../edit-form.js';
import { Area, Pick, Text } from '../fields.js';
import { Failure } from '../parts.js';
import { usePoll } from '../poll.js';
import { utc, zone } from '../time.js';
import { html, useState, useStore } from '../view.js';

/** @typedef {import('../edit-form.js').Form} Form */
/** @typedef {import('../types').Job} Job */

/** @param {{ job: Job, close: () => void, refresh: () => void }} props */
export function EditJob({ job, close, refresh }) {
  const dialog = useDialog();
  const inUtc = useStore(utc);
  const [begun, setBegun] = useState({ first: formOf(job, inUtc), edit: job.edit });
  const [form, setForm] = useState(begun.first);
  const [reason, setReason] = useState('');
  const [refused, setRefused] = useState(/** @type {ApiError | null} */ (null));
  const [changed, setChanged] = useState(/** @type {Set<string>} */ (new Set()));
  const [busy, setBusy] = useState(false);
  const { data: queues } = usePoll(
    (signal) => /** @type {Promise<{ entries: { name: string }[] }>} */ (call('GET', 'v1/queues', { signal })), 0, []);
  const { patch, wrong: unfit } = patchOf(begun.first, form, inUtc);
  const told = (refused?.errors ?? []).map((each) => ({ field: controlOf(each.field), problem: `${each.field} ${each.problem}` }));
  const set = (/** @type {Partial<Form>} */ change) => {
    setForm((before) => ({ ...before, ...change }));
    setChanged((before) => new Set([...before, ...Object.keys(change)]));
  };
  const begin = () => {
    const first = formOf(job, inUtc);
    setBegun({ first, edit: job.edit });
    setForm(first);
    setRefused(null);
  };
  const nothing = Object.keys(patch).length === 0;
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (unfit.length || nothing || busy) return;
    setBusy(true);
    try {
      /** @type {Job & { warning: string | null }} */
      const edited = await call('PATCH', path`v1/jobs/${job.id}`, { body: { ...patch, ...(reason.trim() ? { reason: reason.trim() } : {}) } });
      say(edited.warning ? `Job edited. ${edited.warning}` : 'Job edited', edited.warning ? 'bad' : 'good');
      close();
    } catch (caught) {
      setChanged(new Set());
      setRefused(caught instanceof ApiError ? caught : new ApiError(0, { detail: String(caught) }));
      setBusy(false);
    }
    refresh();
  };
  const editing = { form, set, wrong: [...unfit, ...told.filter((each) => !changed.has(each.field))] };
  const names = (queues?.entries ?? []).map((each) => each.name);
  return html`<dialog ref=${dialog} class="wide" aria-labelledby="editing" onCancel=${close}>
    <form onSubmit=${submit} novalidate>
      <h2 id="editing">Edit the job</h2>
      ${begun.edit !== job.edit && html`<div class="notice warn" role="alert"><p>Somebody has edited the job since you began.</p>
        <button type="button" onClick=${begin}>Begin with what it has now</button></div>`}
      ${refused && !(told.length && told.every((each) => each.field)) && html`<${Failure} error=${refused} />`}
      <div class="fields">
        <${Pick} ...${editing} field="queue" label="Queue" options=${names.includes(form.queue) ? names : [form.queue, ...names]} />
        <${Pick} ...${editing} field="priority" label="Priority" options=${['high', 'default', 'low']} />
        <${Text} ...${editing} field="deadline" type="datetime-local" step="1" label=${`Deadline (${zone(inUtc)}); empty: none`} />
        <${Text} ...${editing} field="timeout_s" label="Time limit of an attempt in seconds" />
        <${Text} ...${editing} field="memory_mb" label="Memory in MiB" hint="512" />
        <${Text} ...${editing} field="cpus" label="CPUs" hint="no limit of its own" />
      </div>
      <${Area} ...${editing} field="labels" label="Labels, key=value, one a line" rows=${3} />
      <${Reason} value=${reason} onValue=${setReason} />
      <div class="actions">
        <button type="button" onClick=${close}>Back</button>
        <button type="submit" class="primary" disabled=${busy || nothing || unfit.length > 0}>${busy ? 'Saving…' : 'Save'}</button>
      </div>
    </form>
  </dialog>`;
}
