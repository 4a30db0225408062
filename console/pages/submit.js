/** Submit a job: a form, the request that it makes, and which queue would take it. */

import { ApiError, call, path } from '../api.js';
import { say } from '../dialogs.js';
import { hasEnded } from '../job-actions.js';
import { Area, Pick, Text } from '../fields.js';
import { Copy, Failure, Head, Loading, Section } from '../parts.js';
import { usePoll } from '../poll.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { changesOf, specificationOf } from '../submission.js';
import { controlOf, EMPTY, fieldsOf, formOf, formOfType } from '../submit-form.js';
import { utc, zone } from '../time.js';
import { html, useEffect, useMemo, useRef, useState, useStore } from '../view.js';

/** @typedef {import('../submit-form.js').Form} Form */
/** @typedef {import('../types').Job} Job */

/** @typedef {import('../fields.js').Editing<Form>} Editing */

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
        : error ? html`<${Failure} error=${error} retry=${refresh} />` : html`<${Loading} />`}`;
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
  const [form, setForm] = useState(first);
  const [refused, setRefused] = useState(/** @type {ApiError | null} */ (null));
  const [changed, setChanged] = useState(/** @type {Set<string>} */ (new Set()));
  const [busy, setBusy] = useState(false);
  const { fields, wrong: unfit } = useMemo(() => fieldsOf(form, inUtc), [form, inUtc]);
  const to = again ? path`v1/jobs/${again.id}/resubmit` : 'v1/jobs';
  const request = again ? { changes: changesOf(specificationOf(again), fields) } : fields;
  const body = JSON.stringify(request, null, 2);
  const key = useRef({ body: '', id: '' });
  const top = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    if (refused) top.current?.scrollIntoView({ block: 'nearest' });
  }, [refused]);
  const told = (refused?.errors ?? []).map((each) => ({ field: controlOf(each.field, form), problem: `${each.field} ${each.problem}` }));
  const wrong = [...unfit, ...told.filter((each) => !changed.has(each.field))];
  const set = (/** @type {Partial<Form>} */ change) => {
    setForm((before) => ({ ...before, ...change }));
    setChanged((before) => new Set([...before, ...Object.keys(change)]));
  };
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (unfit.length || busy) return;
    // The same request again, after an error, is the same job: it may have been accepted.
    if (key.current.body !== body) key.current = { body, id: crypto.randomUUID() };
    setBusy(true);
    try {
      const made = await call('POST', to, { body: request, headers: { 'Idempotency-Key': key.current.id } });
      say(made.admission === 'coalesced' ? 'No new job: the key is full, and this job stands for it' : 'Job submitted');
      go(href(['jobs', made.id]));
    } catch (caught) {
      setChanged(new Set());
      setRefused(caught instanceof ApiError ? caught : new ApiError(0, { detail: String(caught) }));
    }
    setBusy(false);
  };
  /** @type {Editing} */
  const editing = { form, set, wrong };
  return html`
    <div ref=${top}>${refused && html`<${Failure} error=${refused} />`}</div>
    <form class="submit" onSubmit=${submit} novalidate>
      <div class="stack">
        <${Section} title="What runs"><${What} ...${editing} /><//>
        <${Section} title="Where and when"><div class="fields">
          <${Text} ...${editing} field="name" label="Name" hint="for people; several jobs may have the same" />
          <${Pick} ...${editing} field="priority" label="Priority" options=${['high', 'default', 'low']} />
          <${Text} ...${editing} field="queue" label="Queue" hint="empty: the queues’ filters choose" />
          <${Text} ...${editing} field="run_at" type="datetime-local" label=${`Earliest start (${zone(inUtc)})`} />
        </div><${Explain} body=${JSON.stringify(fields)} unfit=${unfit.length > 0} /><//>
        <${Section} title="Limits and retries"><div class="fields">
          <${Text} ...${editing} field="cpus" label="CPUs" hint="such as 0.5" />
          <${Text} ...${editing} field="memory_mb" label="Memory in MiB" hint="512" />
          <${Text} ...${editing} field="pids" label="Processes" hint="1024" />
          <${Text} ...${editing} field="timeout_s" label="Time limit of an attempt in seconds" hint="600" />
          <${Text} ...${editing} field="max_attempts" label="Attempts" hint="3" />
          <${Text} ...${editing} field="backoff_s" label="Longest waits between them in seconds" hint="5, 30, 120, 600, 1800" />
          <${Pick} ...${editing} field="network" label="Network" options=${['none', 'egress', 'host']} />
        </div><//>
        <${Section} title="Notifications"><div class="fields">
          <${Text} ...${editing} field="notify" label="Notify a URL, an SNS topic or EventBridge" hint="URL, ARN or eventbridge" />
          <${Text} ...${editing} field="notify_on" label="Of these events" hint="started, completed" />
        </div><//>
        <${Section} title="Environment and labels"><div class="fields wide-fields">
          <${Area} ...${editing} field="env" label="Environment, NAME=value, one a line" rows=${3} />
          <${Area} ...${editing} field="labels" label="Labels, key=value, one a line" rows=${3} />
          <${Area} ...${editing} field="other" label="Other fields, as JSON" rows=${3} hint=${'{"requires": ["app:billing"]}'} />
        </div><//>
      </div>
      <div class="stack beside">
        <${Section} title="The request" actions=${html`<${Copy} text=${body} what="the request" />`}>
          <p class="about"><code>POST /${to}</code></p>
          <pre class="code" tabindex="0" aria-label="Body of the request">${body}</pre>
          ${unfit.length > 0 && html`<p class="problem">Some fields are not right yet.</p>`}
          <div class="actions"><button type="submit" class="primary" disabled=${busy || unfit.length > 0}>${busy ? 'Submitting…' : 'Submit'}</button></div>
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
