/** Dead jobs, grouped by why they died; retry and dismiss of one, of the selected, or of a whole group. */

import { call, path } from '../api.js';
import { confirm, perform } from '../dialogs.js';
import { Choice, SearchField, setQuery } from '../fields.js';
import { useKeys } from '../keys.js';
import { PAGE, readList } from '../lists.js';
import { lastLine } from '../log-reader.js';
import { Empty, Head, Reading, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { groupByReason, patternOf } from '../reasons.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { actionsOf, nameOf } from '../job-actions.js';
import { can } from '../session.js';
import { sweepEach, SweepProgress, useSweep } from '../sweep.js';
import { html, useEffect, useMemo, useRef, useState } from '../view.js';

/** @typedef {import('../types').Job} Job */
/** @typedef {import('../reasons.js').ReasonGroup<Job>} Group */
/** @typedef {'retry' | 'dismiss'} Deed */

/** What is read at first, and at most. */
const FIRST = 500;
const MOST = 5000;

/** Reasons that show a line of output, which is a request each. */
const SAMPLED = 10;

/** @type {Record<Deed, { label: string, verb: string, text: string, one: string }>} */
const DEEDS = {
  retry: { label: 'Retry', verb: 'retried', text: 'They start again with the same ids, and their attempts are counted from 0.', one: 'It starts again with the same id, and its attempts are counted from 0.' },
  dismiss: { label: 'Dismiss', verb: 'dismissed', text: 'They leave this list and are kept as dismissed; they do not run again.', one: 'It leaves this list and is kept as dismissed; it does not run again.' },
};

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const { query } = route;
  const most = Math.min(MOST, Number(query.get('most')) || FIRST);
  const { data, error, refresh } = usePoll(
    (signal) => /** @type {Promise<import('../lists.js').List<Job>>} */ (readList('v1/dlq', {}, most, signal)), 10_000 * Math.ceil(most / PAGE / 2), [most]);
  const sweep = useSweep(refresh);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const [queue, find, reason] = [query.get('queue') ?? '', query.get('find') ?? '', query.get('reason') ?? ''];
  useEffect(() => setSelected(new Set()), [reason, queue, find]);
  useEffect(() => {
    if (reason && data) list.current?.scrollIntoView();
  }, [reason, !data]);
  const all = data?.entries ?? [];
  const shown = useMemo(() => all.filter((job) => matches(job, queue, find)), [data, queue, find]);
  const groups = useMemo(() => groupByReason(shown), [shown]);
  const jobs = reason ? shown.filter((job) => patternOf(job.reason) === reason) : shown;
  const chosen = jobs.filter((job) => selected.has(job.id));
  const retries = chosen.filter((job) => fits('retry', job));
  const busy = sweep.sweep?.phase === 'running';
  /** @param {Deed} deed @param {readonly Job[]} those @param {string} which */
  const act = async (deed, those, which) => {
    if (await many(deed, those, which, sweep)) setSelected(new Set());
  };
  useKeys([{ keys: 'r', what: 'Retry the selected jobs', run: () => {
    if (retries.length && !busy) void act('retry', chosen, 'selected');
  } }]);
  return html`
    <${Head} title="Dead letters" about=${data ? `${all.length}${data.next ? ' or more' : ''} dead jobs: their attempts are used up, or their last failure was final.` : ''} />
    <${SweepProgress} of=${sweep} />
    ${!data && html`<${Reading} error=${error} retry=${refresh} />`}
    ${data && !all.length && html`<${Section} title="No dead jobs"><${Empty}><p>No job is dead: nothing to do here.</p>
      <p>A job that fails in its last attempt comes here, to be looked at, retried or dismissed.</p><//><//>`}
    ${all.length > 0 && html`
      <${Section} title="By reason" actions=${html`<${Filters} route=${route} jobs=${all} queue=${queue} find=${find} />`}>
        ${groups.length ? html`<${Groups} groups=${groups} chosen=${reason} route=${route} busy=${busy} act=${act} />` : html`<${Empty}><p>No dead job matches these filters.</p><//>`}
        ${data?.next && html`<p class="actions"><span class="about">The newest ${all.length} are grouped; there are more.</span>
          ${most < MOST && html`<button type="button" onClick=${() => setQuery(route, { most: String(Math.min(MOST, most * 2)) })}>Read ${Math.min(MOST, most * 2)}</button>`}</p>`}
      <//>
      <div ref=${list}><${Section} title=${reason ? `Jobs with this reason (${jobs.length})` : `Jobs (${jobs.length})`} actions=${can('admin.mutate') && chosen.length > 0 && html`
          ${retries.length > 0 && html`<button type="button" class="primary" disabled=${busy} onClick=${() => act('retry', chosen, 'selected')}>Retry ${retries.length} selected</button>`}
          <button type="button" class="danger" disabled=${busy} onClick=${() => act('dismiss', chosen, 'selected')}>Dismiss ${chosen.length} selected</button>`}>
        ${reason && html`<p class="chips"><span class="badge"><span>${reason}</span></span> <button type="button" onClick=${() => setQuery(route, { reason: null })}>Show all reasons</button></p>`}
        <${Jobs} jobs=${jobs.slice(0, FIRST)} selected=${selected} setSelected=${setSelected} refresh=${refresh} busy=${busy} />
        ${jobs.length > FIRST && html`<p class="about">The newest ${FIRST} of ${jobs.length} are shown; actions on the group are on all of them.</p>`}
      <//></div>`}`;
}

/** The route of it: a retry by an operator, who may not submit. @param {Deed} deed @param {string} id */
function to(deed, id) {
  return path`v1/dlq/${id}/${deed === 'retry' ? 'replay' : deed}`;
}

/** Whether the API would do it with a job; one that has been started and is not restartable is not retried. @param {Deed} deed @param {Job} job */
function fits(deed, job) {
  return actionsOf(job, can).includes(deed);
}

/** @param {Job} job @param {string} queue @param {string} find */
function matches(job, queue, find) {
  if (queue && job.queue !== queue) return false;
  const text = [job.id, job.name, job.type, job.reason, job.command.join(' '), ...Object.entries(job.labels).map(([name, value]) => `${name}=${value}`)].join('\n').toLowerCase();
  return find.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** @param {{ route: import('../router.js').Route, jobs: readonly Job[], queue: string, find: string }} props */
function Filters({ route, jobs, queue, find }) {
  const queues = [...new Set(jobs.map((job) => job.queue))].sort();
  return html`<div class="bar">
    <${SearchField} label="Find" value=${find} hint="reason, name, type, label" onValue=${(/** @type {string} */ value) => setQuery(route, { find: value })} />
    <${Choice} label="Queue" value=${queue} options=${[['', 'all'], ...queues.map((name) => [name, name])]} onValue=${(/** @type {string} */ value) => setQuery(route, { queue: value, reason: null })} />
  </div>`;
}

/** What a job said last, on standard error if it did. @param {{ job: Job }} props */
function LastLine({ job }) {
  const { data } = usePoll((signal) => lastLine(job.id, signal), 0, [job.id]);
  return data && html`<samp class="about clamp">${data}</samp>`;
}

/**
 * @param {{ groups: readonly Group[], chosen: string, route: import('../router.js').Route, busy: boolean, act: (deed: Deed, jobs: readonly Job[], which: string) => void }} props
 */
function Groups({ groups, chosen, route, busy, act }) {
  /** @param {Group} group */
  const to = (group) => {
    const query = new URLSearchParams(route.query);
    if (group.pattern === chosen) query.delete('reason');
    else query.set('reason', group.pattern);
    return href(route.path, query);
  };
  /** @param {(job: Job) => string | null | undefined} value @param {Group} group */
  const names = (value, group) => {
    const found = [...new Set(group.jobs.map((job) => value(job) ?? 'command'))].sort();
    return found.length > 3 ? `${found.slice(0, 3).join(', ')} and ${found.length - 3} more` : found.join(', ');
  };
  /** @type {import('../parts.js').Column<Group>[]} */
  const columns = [
    { name: 'Reason', className: 'wide', cell: (group) => html`${group.pattern || 'no reason'}${groups.indexOf(group) < SAMPLED && html`<${LastLine} key=${group.jobs[0]?.id} job=${group.jobs[0]} />`}` },
    { name: 'Jobs', className: 'number', cell: (group) => html`<strong>${group.jobs.length}</strong>` },
    { name: 'Types', className: 'minor', cell: (group) => names((job) => job.type, group) },
    { name: 'Queues', className: 'minor', cell: (group) => names((job) => job.queue, group) },
    { name: 'Newest', cell: (group) => html`<${Time} at=${group.newest} />` },
    { name: 'Oldest', className: 'minor', cell: (group) => html`<${Time} at=${group.oldest} />` },
    ...(can('admin.mutate') ? [{ name: 'Whole group', cell: (/** @type {Group} */ group) => html`<span class="actions tight">
      ${group.jobs.some((job) => fits('retry', job)) && html`<button type="button" disabled=${busy} onClick=${() => act('retry', group.jobs, 'of this reason')}>Retry all</button>`}
      <button type="button" disabled=${busy} onClick=${() => act('dismiss', group.jobs, 'of this reason')}>Dismiss all</button></span>` }] : []),
  ];
  return html`<${Table} caption="Dead jobs by reason" columns=${columns} rows=${groups} id=${(/** @type {Group} */ group) => group.pattern} to=${to} />`;
}

/**
 * @param {{ jobs: readonly Job[], selected: Set<string>, setSelected: (ids: Set<string>) => void, refresh: () => void, busy: boolean }} props
 */
function Jobs({ jobs, selected, setSelected, refresh, busy }) {
  const columns = useMemo(() => /** @type {import('../parts.js').Column<Job>[]} */ ([
    { name: 'Job', className: 'short', cell: (job) => nameOf(job, 48) },
    { name: 'Reason', className: 'wide', cell: (job) => html`<${Sentence} text=${job.reason} />` },
    { name: 'Queue', className: 'minor', cell: (job) => job.queue },
    { name: 'Attempts', className: 'number minor', cell: (job) => job.attempt },
    { name: 'Died', cell: (job) => html`<${Time} at=${job.ended_at} />` },
    ...(can('admin.mutate') ? [{ name: 'Action', cell: (/** @type {Job} */ job) => html`<span class="actions tight">
      ${fits('retry', job) && html`<button type="button" disabled=${busy} onClick=${() => one('retry', job, refresh)}>Retry</button>`}
      <button type="button" disabled=${busy} onClick=${() => one('dismiss', job, refresh)}>Dismiss</button></span>` }] : []),
  ]), [busy, refresh]);
  return html`<${Table} caption="Dead jobs" columns=${columns} rows=${jobs} id=${(/** @type {Job} */ job) => job.id} to=${(/** @type {Job} */ job) => href(['jobs', job.id])}
    ...${can('admin.mutate') ? { selected, onSelect: setSelected } : {}} />`;
}

/** @param {Deed} deed @param {Job} job @param {() => void} refresh */
async function one(deed, job, refresh) {
  const { label, verb, one: text } = DEEDS[deed];
  const name = nameOf(job, 80);
  const answer = await confirm({
    title: `${label} ${name}?`, action: label, danger: deed === 'dismiss', reason: true, text: html`<p>${text}</p><p>${job.reason}</p>`,
  });
  if (!answer) return;
  await perform(`${name} ${verb}`, () => call('POST', to(deed, job.id), { body: { reason: answer.reason } }));
  refresh();
}

/**
 * Ask, and begin; whether it was begun.
 * @param {Deed} deed
 * @param {readonly Job[]} those
 * @param {string} which
 * @param {ReturnType<typeof useSweep>} sweep
 */
async function many(deed, those, which, sweep) {
  const { label, verb, text } = DEEDS[deed];
  const jobs = those.filter((job) => fits(deed, job));
  const count = `${jobs.length} ${jobs.length === 1 ? 'job' : 'jobs'}`;
  const left = those.length - jobs.length;
  const answer = await confirm({ title: `${label} ${count}?`, action: `${label} ${count}`, danger: deed === 'dismiss', reason: true, text: html`<p>All ${jobs.length} dead jobs ${which}${left ? ` that can be ${verb}; ${left} cannot and stay` : ''}. ${text}</p>` });
  if (!answer) return false;
  void sweep.start({ title: `${label} dead jobs`, verb, of: jobs.length }, (report, signal) => sweepEach(
    jobs.map((job) => job.id), (id) => call('POST', to(deed, id), { body: { reason: answer.reason }, signal }), report, signal));
  return true;
}
