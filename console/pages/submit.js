/** Submit a job: a form, the request that it makes, and which queue would take it. */

import { ApiError, call, path } from '../api.js';
import { say } from '../dialogs.js';
import { hasEnded } from '../job-actions.js';
import { Area, Pick, Text } from '../fields.js';
import { Copy, Failure, Head, Reading, Section } from '../parts.js';
import { usePoll } from '../poll.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { changesOf, specificationOf } from '../submission.js';
import { controlOf, EMPTY, fieldsOf, formOf, formOfType } from '../submit-form.js';
import { bytes, utc, zone } from '../time.js';
import { html, useEffect, useMemo, useRef, useState, useStore } from '../view.js';
import { Inputs, inputsOf } from './submit-files.js';

/** @typedef {import('../submit-form.js').Form} Form */
/** @typedef {import('../types').Job} Job */

/** @typedef {import('../fields.js').Editing<Form>} Editing */

/** Controls with their labels and examples. @typedef {readonly (readonly [string, string, string?])[]} Controls */

/** @type {Controls} */
const LIMITS = [
  ['cpus', 'CPUs', 'such as 0.5'], ['memory_mb', 'Memory in MiB', '512'], ['pids', 'Processes', '1024'], ['timeout_s', 'Time limit of an attempt in seconds', '600'],
  ['max_attempts', 'Attempts', '3'], ['backoff_s', 'Longest waits between them in seconds', '5, 30, 120, 600, 1800'],
];

/** @type {Controls} */
const AREAS = [
  ['env', 'Environment, NAME=value, one a line'], ['labels', 'Labels, key=value, one a line'],
  ['stdin', 'Standard input'], ['outputs', 'Files to keep, a path or glob a line', 'out/*.csv'],
];

/** @type {Controls} */
const MORE = [
  ['notify', 'Notify a URL, an SNS topic or EventBridge', 'URL, ARN or eventbridge'], ['notify_on', 'Of these events', 'started, completed'],
  ['target', 'Target', '_any'], ['reply_timeout_s', 'Seconds for agents to reply'],
  ['cores', 'Cores', '0-1'], ['io_bps', 'Disk I/O in bytes per second'], ['tmp_mb', '/tmp in MiB', '256'], ['disk_mb', 'Work directory in MiB'],
  ['heartbeat_timeout_s', 'Longest silence in seconds'], ['items', 'Items of work', '1'],
  ['permanent', 'Exit codes without another attempt', '65'], ['blocked', 'Exit codes that wait for a condition', '75'], ['skipped', 'Exit codes that skip the job'],
];

/** @type {Controls} */
const ARRAY = [
  ['array', 'Array: a number of jobs, or indices', '100, or 1-99:2'], ['max_concurrency', 'Members at once'],
  ['max_failures', 'Failed members before no more start'], ['tolerate', 'Failed members that do not matter', '3, or 5 %'],
];

/** @type {Controls} */
const FLAGS = [['restartable', 'May start again'], ['merge_stderr', 'Standard error with standard output'], ['mask_secrets', 'Secrets masked in output'], ['notify_members', 'Notify of each member']];

/** @type {Controls} */
const MORE_AREAS = [
  ['array_values', 'Values of the array, JSON, one a line', '{"file": "a.csv"}'], ['requires', 'Conditions, one a line', 'app:billing'], ['secret_env', 'Secrets, NAME=reference, one a line', 'TOKEN=secretsmanager:billing/token'],
  ['concurrency', 'Limit by a key, as JSON', '{"key": ["customer", 7], "max_active": 1}'], ['other', 'Fields without a control, as JSON', '{}'],
];

/** Controls that are always in view. */
const FIRST = new Set(['shell', 'arguments', 'type', 'params', 'name', 'priority', 'queue', 'run_at', 'network', 'inputs', ...[...LIMITS, ...AREAS].map(([field]) => field)]);

/** @param {Editing & { of: Controls, children?: any }} props */
function Texts({ of, children, ...editing }) {
  return html`<div class="fields">${of.map(([field, label, hint]) => html`<${Text} ...${editing} field=${field} label=${label} hint=${hint} />`)}${children}</div>`;
}

/** @param {Editing & { of: Controls }} props */
function Areas({ of, ...editing }) {
  return html`<div class="fields wide-fields">${of.map(([field, label, hint]) => html`<${Area} ...${editing} field=${field} label=${label} hint=${hint} rows=${3} />`)}</div>`;
}

/** A control for a time. @param {any} props */
const Moment = (props) => html`<${Text} ...${props} type="datetime-local" />`;

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const from = route.query.get('from') ?? '';
  const type = route.query.get('type') ?? '';
  const { data, error, refresh } = usePoll((signal) => begin(from, type, signal), 0, [from, type]);
  const job = data?.from;
  // One heading all the time: it has the focus.
  return html`
    <${Head} title="New job" about=${job && html`As <a href=${href(['jobs', job.id])}>${job.name ?? job.id}</a>, with changes`} />
    ${!can('jobs.submit') ? html`<p>Your role may not submit jobs.</p>`
      : data ? html`<${Submit} key=${`${from} ${type}`} first=${data.first} again=${job && hasEnded(job) && job.group === null ? job : null} />`
        : html`<${Reading} error=${error} retry=${refresh} />`}`;
}

/**
 * What the form begins with: a job, a type, or nothing.
 * @param {string} from
 * @param {string} type
 * @param {AbortSignal} signal
 * @returns {Promise<{ from: Job | null, first: Form }>}
 */
async function begin(from, type, signal) {
  if (from) {
    /** @type {Job} */
    const job = await call('GET', path`v1/jobs/${from}`, { signal });
    return { from: job, first: formOf(specificationOf(job), Date.now()) };
  }
  if (!type) return { from: null, first: EMPTY };
  /** @type {import('../types').TypeView} */
  const view = await call('GET', path`v1/types/${type}`, { signal });
  return { from: null, first: formOfType(type, view.params_schema) };
}

/** @param {{ first: Form, again: Job | null }} props  `again` is the job that is resubmitted with changes. */
function Submit({ first, again }) {
  const inUtc = useStore(utc);
  const { data: names } = usePoll(async (signal) => (await call('GET', 'v1/queues', { signal })).entries.map((/** @type {{ name: string }} */ queue) => queue.name), 0, []);
  const [form, setForm] = useState(first);
  const [refused, setRefused] = useState(/** @type {ApiError | null} */ (null));
  const [changed, setChanged] = useState(/** @type {Set<string>} */ (new Set()));
  const [busy, setBusy] = useState(false);
  const [reading, setReading] = useState(false);
  const [rest, setRest] = useState(false);
  const [sent, setSent] = useState(/** @type {import('../uploads.js').Progress | null} */ (null));
  const files = useRef(/** @type {Map<string, File>} */ (new Map()));
  const uploading = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => uploading.current?.abort(), []);
  const { fields, wrong: unfit } = useMemo(() => fieldsOf(form, inUtc), [form, inUtc]);
  const to = again ? path`v1/jobs/${again.id}/resubmit` : 'v1/jobs';
  const request = again ? { changes: changesOf(specificationOf(again), fields) } : fields;
  const body = JSON.stringify(request, null, 2);
  const key = useRef({ body: '', id: '' });
  useEffect(() => {
    if (refused) /** @type {HTMLElement | null} */ (document.querySelector('[aria-invalid], main .failure'))?.scrollIntoView({ block: 'center' });
  }, [refused]);
  const told = (refused?.errors ?? []).map((each) => ({ field: controlOf(each.field, form), problem: `${each.field} ${each.problem}` }));
  const wrong = [...unfit, ...told.filter((each) => !changed.has(each.field))];
  const set = (/** @type {Partial<Form>} */ change) => {
    setForm((before) => /** @type {Form} */ ({ ...before, ...change }));
    setChanged((before) => new Set([...before, ...Object.keys(change)]));
  };
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (unfit.length || busy || reading) return;
    // The same request again, after an error, is the same job: it may have been accepted.
    if (key.current.body !== body) key.current = { body, id: crypto.randomUUID() };
    setBusy(true);
    try {
      await send();
      const made = await call('POST', to, { body: request, headers: { 'Idempotency-Key': key.current.id } });
      say(made.admission === 'coalesced' ? 'No new job: the key is full, and this job stands for it' : 'Job submitted');
      go(href(['jobs', made.id]));
    } catch (caught) {
      setChanged(new Set());
      setRefused(caught instanceof ApiError ? caught : new ApiError(0, { detail: `No job was submitted: ${caught instanceof Error ? caught.message : caught}.` }));
    }
    setSent(null);
    setBusy(false);
  };
  /** Upload the files that the request names and that were chosen here: before it, so that no job waits for one. */
  const send = async () => {
    const chosen = new Map(inputsOf(form).flatMap(({ sha256 }) => {
      const file = files.current.get(sha256);
      return file ? [/** @type {[string, File]} */ ([sha256, file])] : [];
    }));
    if (!chosen.size) return;
    const { upload } = await import('../uploads.js');
    uploading.current = new AbortController();
    await upload(chosen, setSent, uploading.current.signal);
  };
  const queues = [...new Set(['', form.queue ?? '', ...(names ?? [])])];
  /** @type {Editing} */
  const editing = { form, set, wrong };
  return html`
    ${refused && !told.length && html`<${Failure} error=${refused} />`}
    <form class="submit" onSubmit=${submit} novalidate>
      <div class="stack">
        <${Section} title="What runs"><${What} ...${editing} /><//>
        <${Section} title="Where and when"><div class="fields">
          <${Text} ...${editing} field="name" label="Name" hint="for people; several jobs may have the same" />
          <${Pick} ...${editing} field="priority" label="Priority" options=${['high', 'default', 'low']} />
          <${Pick} ...${editing} field="queue" label="Queue" hint="chosen by the queues’ filters" options=${queues} />
          <${Moment} ...${editing} field="run_at" label=${`Earliest start (${zone(inUtc)})`} />
        </div><${Explain} body=${JSON.stringify(fields)} unfit=${unfit.length > 0} /><//>
        <${Section} title="Limits and retries"><${Texts} ...${editing} of=${LIMITS}>
          <${Pick} ...${editing} field="network" label="Network" options=${['none', 'egress', 'host']} /><//><//>
        <${Section} title="Environment, files and labels"><${Areas} ...${editing} of=${AREAS} /><${Inputs} ...${editing} files=${files.current} onReading=${setReading} /><//>
        <${Section} title="More"><details open=${rest || wrong.some((each) => !FIRST.has(each.field))} onToggle=${(/** @type {Event} */ event) => setRest(/** @type {HTMLDetailsElement} */ (event.target).open)}><summary>All other fields</summary><div class="stack">
          <${Texts} ...${editing} of=${ARRAY} /><${Texts} ...${editing} of=${MORE}>
            <${Moment} ...${editing} field="deadline" label=${`Deadline (${zone(inUtc)})`} />
            ${FLAGS.map(([field, label]) => html`<${Pick} ...${editing} field=${field} label=${label} options=${['yes', 'no']} />`)}<//>
          <${Areas} ...${editing} of=${MORE_AREAS} /></div></details><//>
      </div>
      <div class="stack beside">
        <${Section} title="The request" actions=${html`<${Copy} text=${body} what="the request" />`}>
          <p class="about"><code>POST /${to}</code></p>
          <pre class="code" tabindex="0" aria-label="Body of the request">${body}</pre>
          ${wrong.length > 0 && html`<p class="problem" role="status">${wrong.length === 1 ? 'One field is' : `${wrong.length} fields are`} not right yet; it says why beside each.</p>`}
          ${sent && html`<p class="sent"><progress max=${sent.size || 1} value=${sent.sent} aria-label="Uploaded"></progress>
            <span role="status">Uploading file ${sent.files + 1}, ${bytes(sent.sent)} of ${bytes(sent.size)}</span></p>`}
          <div class="actions"><button type="submit" class="primary" disabled=${busy || reading || unfit.length > 0}>${busy ? 'Submitting…' : 'Submit'}</button>
            ${sent && html`<button type="button" onClick=${() => uploading.current?.abort()}>Stop</button>`}</div>
        <//>
      </div>
    </form>`;
}

/** The command or the type. @param {Editing} props */
function What(props) {
  const { form, set } = props;
  /** @type {[Form['kind'], string][]} */
  const kinds = [['shell', 'Shell line'], ['arguments', 'Program and arguments'], ['type', 'Job type']];
  return html`
    <div class="chips" role="radiogroup" aria-label="What runs">${kinds.map(([kind, name]) => html`<label class="line"><input type="radio" name="kind" value=${kind}
      checked=${form.kind === kind} onChange=${() => set({ kind })} /> ${name}</label>`)}</div>
    ${form.kind === 'shell' && html`<${Area} ...${props} field="shell" label="Line for a shell; runs as sh -c" rows=${3} hint="echo hello" />`}
    ${form.kind === 'arguments' && html`<${Area} ...${props} field="arguments" label="The program, then one argument a line; no shell" rows=${4} hint=${'python3\nreport.py'} />`}
    ${form.kind === 'type' && html`<${Text} ...${props} field="type" label="Type" /><${Area} ...${props} field="params" label="Params, as JSON" rows=${4} hint="{}" />`}`;
}

/** Which queue would take it; nothing is submitted. @param {{ body: string, unfit: boolean }} props */
function Explain({ body, unfit }) {
  const [answer, setAnswer] = useState(/** @type {import('../types').QueueChoice | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  useEffect(() => {
    setAnswer(null);
    setError(null);
  }, [body]);
  const ask = async () => {
    try {
      setError(null);
      setAnswer(await call('POST', 'v1/queues/explain', { body: JSON.parse(body) }));
    } catch (caught) {
      setError(/** @type {Error} */ (caught));
    }
  };
  return html`<div class="explain">
    <button type="button" onClick=${ask} disabled=${unfit}>Which queue?</button>
    <div role="status">${answer && html`<p>${answer.queue ? html`Queue <strong>${answer.queue}</strong>: ` : html`<strong>No queue takes it</strong>: `}${answer.reason}</p>
      <ul>${answer.entries.map((entry) => html`<li key=${entry.queue}><strong>${entry.queue}</strong>${entry.filter && html` <code>${entry.filter}</code>`} <span class="about">${entry.reason}</span></li>`)}</ul>`}</div>
    ${error && html`<${Failure} error=${error} />`}
  </div>`;
}
