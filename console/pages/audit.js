/** The audit trail: who did what, to what, why, and what came of it. */

import { Choice, setQuery, valueOf } from '../fields.js';
import { useList } from '../lists.js';
import { Copy, dash, Empty, Head, Id, Pager, Reading, Table, Time } from '../parts.js';
import { href } from '../router.js';
import { can, summary } from '../session.js';
import { clock, utc, zone } from '../time.js';
import { html, useStore } from '../view.js';

/** @typedef {import('../types').AuditEntry} Entry */
/** @typedef {import('../router.js').Route} Route */

/** What each action is, as a past participle. @type {Record<Entry['action'], string>} */
const ACTIONS = {
  'backfill-schedule': 'schedule backfilled',
  cancel: 'job cancelled',
  'cancel-group': 'group cancelled',
  'cancel-jobs': 'jobs of a list cancelled',
  clear: 'queue of a key cleared',
  cordon: 'agent cordoned',
  'create-schedule': 'schedule created',
  declare: 'application declared',
  delete: 'job deleted',
  'delete-schedule': 'schedule deleted',
  'delete-jobs': 'jobs of a list deleted',
  'dismiss-jobs': 'dead jobs of a list dismissed',
  'replay-jobs': 'dead jobs of a list replayed',
  'resubmit-jobs': 'jobs of a list resubmitted',
  dismiss: 'dead job dismissed',
  drain: 'agent drained',
  edit: 'job edited',
  'edit-schedule': 'schedule edited',
  hide: 'job hidden',
  'log-level': 'log level set',
  'pause-schedule': 'schedule paused',
  'push-type': 'job type pushed',
  'remove-type': 'job type removed',
  replay: 'dead job replayed',
  requeue: 'messages sent again',
  'restart-failed': 'failed jobs restarted',
  resubmit: 'job resubmitted',
  'resume-schedule': 'schedule resumed',
  retry: 'job retried',
  'retry-group': 'group retried',
  'retry-jobs': 'jobs of a list retried',
  'run-schedule': 'schedule run',
  settings: 'queue settings changed',
  submit: 'job submitted',
  uncordon: 'cordon undone',
  unhide: 'job shown again',
  'upload-bundle': 'bundle uploaded',
  'upload-files': 'files uploaded',
};

/** Spans of time to choose from. @type {[string, number][]} */
const SPANS = [['Last hour', 3_600_000], ['24 hours', 86_400_000], ['7 days', 604_800_000]];

/** @param {{ route: Route }} props */
export default function Page({ route }) {
  const tenant = useStore(summary)?.caller.tenant;
  return html`
    <${Head} title="Audit trail" about=${`Changes ${tenant ? `in the tenant ${tenant}` : 'by the role platform'}, newest first.`} />
    <${Filters} route=${route} />
    <${Entries} route=${route} />`;
}

/** @param {{ route: Route }} props */
function Filters({ route }) {
  const inUtc = useStore(utc);
  const { query } = route;
  const set = (/** @type {Record<string, string | null>} */ changes) => setQuery(route, { ...changes, next: null });
  const moment = (/** @type {string} */ name) => html`<input type="datetime-local" value=${local(query.get(name), inUtc)}
    onChange=${(/** @type {Event} */ event) => set({ [name]: instant(valueOf(event), inUtc) })} />`;
  const actions = Object.entries(ACTIONS).filter(([action]) => action !== 'submit').map(([action, text]) => [action, `${action}: ${text}`]);
  return html`<div class="bar">
    <${Choice} label="Action" value=${query.get('action') ?? ''} options=${[['', 'All'], ...actions]} onValue=${(/** @type {string} */ action) => set({ action })} />
    <label>From (${zone(inUtc)})${moment('since')}</label>
    <label>Until${moment('until')}</label>
    <div class="chips">
      ${SPANS.map(([name, ms]) => html`<button type="button" onClick=${() => set({ since: new Date(Date.now() - ms).toISOString(), until: null })}>${name}</button>`)}
      ${[...query.keys()].length > 0 && html`<button type="button" onClick=${() => set({ action: null, since: null, until: null })}>Show all</button>`}
    </div>
  </div>`;
}

/** @param {{ route: Route }} props */
function Entries({ route }) {
  const { query } = route;
  const filters = { action: query.get('action'), since: query.get('since'), until: query.get('until'), next: query.get('next') };
  const { data, error, refresh } = useList('v1/audit', filters, { most: 50, everyMs: 15_000 });
  if (!data) return html`<${Reading} error=${error} retry=${refresh} />`;
  const rows = /** @type {Entry[]} */ (data.entries);
  /** @type {import('../parts.js').Column<Entry>[]} */
  return html`<section class="panel">
    ${!rows.length && html`<${Empty}>${[...query.keys()].length
      ? html`<p>No entry matches.</p><p><a href=${href(['audit'])}>Show all</a></p>`
      : html`<p>Nobody has changed anything yet.</p><p>Cancelling a job, pausing a queue or draining an agent makes an entry here.</p>`}<//>`}
    ${rows.length > 0 && html`<${Table} caption="Entries of the audit trail" rows=${rows} id=${(/** @type {Entry} */ entry) => entry.id} columns=${[
      { name: 'When', cell: (/** @type {Entry} */ entry) => html`<${Time} at=${entry.at} full />` },
      { name: 'Who', cell: (/** @type {Entry} */ entry) => who(entry) },
      { name: 'What', className: 'name', cell: (/** @type {Entry} */ entry) => html`${ACTIONS[entry.action] ?? entry.action}<br />${entry.refused
        ? html`<strong class="bad"><span aria-hidden="true">✕</span> refused</strong>`
        : html`<span class="good"><span aria-hidden="true">✓</span> done</span>`}` },
      { name: 'To what', cell: targets },
      { name: 'Reason and details', className: 'wide', cell: details },
      { name: 'Request', className: 'minor', cell: (/** @type {Entry} */ entry) => entry.request_id && html`<span class="actions tight"><${Id} text=${entry.request_id} short=${8} /><${Copy} text=${entry.request_id} what="the request id" /></span>` },
    ]} />`}
    <${Pager} route=${route} next=${data.next} what="entries" />
  </section>`;
}

/** @param {Entry} entry */
function who(entry) {
  if (!entry.by) return html`<span class="none">not recorded</span>`;
  const about = [entry.by.kind === 'machine' ? 'machine' : '', entry.by_platform ? 'role platform' : ''].filter(Boolean).join(', ');
  return html`<span title=${`Subject ${entry.by.subject}`}>${entry.by.name}</span>${about && html`<div class="about">${about}</div>`}`;
}

/** The objects of an action. @param {Entry} entry */
function targets({ target: { scope, key, ...rest } }) {
  return html`
    ${scope && key && html`<div><span class="about">key of</span> ${can('jobs.read') ? html`<a href=${href(['keys', scope, key])}>${scope}</a>` : scope}</div>`}
    ${Object.entries(rest).map(([kind, name]) => html`<div>${target(kind, name)}</div>`)}`;
}

/** The object of an action, as a link where the reader may see it. @param {string} kind @param {string} name */
function target(kind, name) {
  const jobs = can('jobs.read');
  /** @type {Record<string, string | false>} */
  const pages = {
    job_id: jobs && href(['jobs', name]),
    group: jobs && href(['groups', name]),
    queue: href(['queues', name]),
    agent: can('platform.read') && href(['agents', name]),
    condition: can('admin.read') && href(['conditions']),
    type: jobs && href(['types', name]),
    schedule: jobs && href(['schedules', name]),
  };
  const text = kind === 'job_id' || kind === 'group' ? html`<${Id} text=${name} />` : name;
  return html`<span class="about">${kind === 'job_id' ? 'job' : kind.replaceAll('_', ' ')}</span> ${pages[kind] ? html`<a href=${pages[kind]}>${text}</a>` : text}`;
}

/** The reason, why it was refused, and the other parameters of the request. @param {Entry} entry */
function details({ reason, refused, asked }) {
  const given = leaves(asked ?? {});
  if (!reason && !refused && !given.length) return dash();
  return html`${reason && html`<div>${reason}</div>`}${refused && html`<div>${refused.status}: ${refused.detail}</div>`}${given.length > 0 && html`<dl class="pairs">${given.slice(0, MOST).map(([name, value]) =>
    html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>${given.length > MOST && html`<p class="about">and ${given.length - MOST} more</p>`}`}`;
}

/** Parameters of a request that are shown. */
const MOST = 12;

/**
 * What an object has, with the names of what is within others: `resources.cpus`.
 * @param {object} given
 * @param {string} [before]
 * @returns {[string, string][]}
 */
function leaves(given, before = '') {
  return Object.entries(given).flatMap(([name, value]) => {
    const isPlain = !Array.isArray(value) || value.every((each) => typeof each !== 'object');
    if (value && typeof value === 'object' && !(Array.isArray(value) && isPlain)) return leaves(value, `${before}${name}.`);
    return /** @type {[string, string][]} */ ([[before + name, value === null ? 'none' : Array.isArray(value) ? value.join(' ') : String(value)]]);
  });
}

/** A moment as a field of date and time shows it. @param {string | null} at @param {boolean} inUtc */
function local(at, inUtc) {
  return at && !Number.isNaN(Date.parse(at)) ? clock(at, inUtc).slice(0, 16).replace(' ', 'T') : '';
}

/** Inverse of `local`. @param {string} text @param {boolean} inUtc */
function instant(text, inUtc) {
  const date = new Date(inUtc ? `${text}Z` : text);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}
