/** One queue: its lengths, rates and limits, and actions on all of its jobs. */

import { call, path } from '../api.js';
import { confirm } from '../dialogs.js';
import { valueOf } from '../fields.js';
import { linksFor } from '../links.js';
import { Figure, Head, Reading, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { activityOf, backlogS, grouped, oldest, open, perMinute, retirement, total } from '../queue-figures.js';
import { changeSettings, Limits, mayChange } from '../queue-settings.js';
import { ActivityCharts } from '../queue-charts.js';
import { href } from '../router.js';
import { can, summary } from '../session.js';
import { sweepPages, SweepProgress, useSweep } from '../sweep.js';
import { duration } from '../time.js';
import { html, useStore } from '../view.js';
import { QueueState } from './queues.js';

/** @typedef {import('../types').QueueView} QueueView */
/** @typedef {import('../types').LaneView} LaneView */
/** @typedef {import('../types').Activity} Activity */

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const name = route.path[1] ?? '';
  const { data: queue, error, refresh } = usePoll(
    (signal) => /** @type {Promise<QueueView>} */ (call('GET', path`v1/queues/${name}`, { signal })), 5000, [name]);
  const sweep = useSweep(refresh);
  const links = linksFor(useStore(summary)?.links ?? [], 'queue', { queue: name });
  if (!queue) {
    return html`<${Head} title=${`Queue ${name}`} />
      <${Reading} error=${error} retry=${refresh} />`;
  }
  const busy = sweep.sweep?.phase === 'running';
  return html`
    <${Head} title=${`Queue ${name}`} about=${html`<${QueueState} queue=${queue} /> <${LastChange} queue=${queue} />`}>
      ${links.map((link) => html`<a class="button" href=${link.url} rel="noopener noreferrer" target="_blank">${link.name}</a>`)}
      ${can('jobs.read') && html`<a class="button" href=${href(['jobs'], { queue: name })}>Jobs of this queue</a>`}
      ${mayChange(queue) && (queue.settings.run_jobs
        ? html`<button type="button" onClick=${() => pause(queue, refresh)}>Pause</button>`
        : html`<button type="button" class="primary" onClick=${() => resume(queue, refresh)}>Resume</button>`)}
    <//>
    <${SweepProgress} of=${sweep} />
    ${queue.retired && html`<p class="about">The queue is retired in joblane.toml: it ${retirement(queue)}.</p>`}
    <${Figures} queue=${queue} />
    <${ActivityCharts} queue=${name} route=${route} />
    <div class="grid">
      <${Lanes} queue=${queue} />
      <${Windows} queue=${queue} />
    </div>
    <div class="grid">
      <${Limits} key=${name} queue=${queue} refresh=${refresh} />
      <${Sweeps} queue=${name} sweep=${sweep} busy=${busy} />
    </div>`;
}

/** @param {{ queue: QueueView }} props */
function LastChange({ queue: { settings } }) {
  if (!settings.changed_at) return null;
  return html`<span>settings changed <${Time} at=${settings.changed_at} />${settings.changed_by && ` by ${settings.changed_by}`}</span>`;
}

/** @param {{ queue: QueueView }} props */
function Figures({ queue }) {
  const recent = activityOf(queue, 5);
  const first = queue.jobs?.oldest;
  // A tenant sees its own starts: in a shared queue they say nothing about the messages of all.
  const backlog = can('platform.read') || queue.settings.may_change ? backlogS(queue) : null;
  /** @param {string} state */
  const to = (state) => (can('jobs.read') ? { to: href(['jobs'], { queue: queue.name, state }) } : {});
  return html`<div class="figures">
    <${Figure} name="Waiting" value=${grouped(total(queue, 'visible'))} note=${backlog === null ? 'for an agent' : `start within about ${duration(backlog)}, as in the last 5 min`} ...${to('pending')} />
    <${Figure} name="In flight" value=${grouped(total(queue, 'in_flight'))} note="run, or wait for an attempt" ...${to('active')} />
    <${Figure} name="Delayed" value=${grouped(total(queue, 'delayed'))} note="start within 15 min" ...${to('scheduled')} />
    <${Figure} name="Oldest waiting" value=${oldest(queue)} note=${first && !first.job_id ? 'at least' : 'of your jobs'} ...${first?.job_id && can('jobs.read') ? { to: href(['jobs', first.job_id]) } : {}} />
    <${Figure} name="Mean wait" value=${duration(recent?.mean_wait_s ?? NaN) || '–'} note="for a start, 5 min" />
    <${Figure} name="Your jobs" value=${open(queue.jobs?.waiting)} note=${html`wait, ${open(queue.jobs?.running)} run (items)`} />
    <${Figure} name="Failed" value=${grouped(recent?.failed.jobs ?? 0)} tone=${recent?.failed.jobs ? 'warn' : ''} note="in 5 min" ...${to('failed')} />
  </div>`;
}

/** @param {{ queue: QueueView }} props */
function Lanes({ queue }) {
  /** @type {import('../parts.js').Column<LaneView>[]} */
  const columns = [
    { name: 'Lane', className: 'name', cell: (lane) => lane.lane },
    { name: 'Waiting', className: 'number', cell: (lane) => grouped(lane.visible) },
    { name: 'In flight', className: 'number', cell: (lane) => grouped(lane.in_flight) },
    { name: 'Delayed', className: 'number', cell: (lane) => grouped(lane.delayed) },
    { name: 'Oldest message', className: 'number', cell: (lane) => duration(lane.oldest_message_s ?? NaN) || '–' },
  ];
  return html`<${Section} title="Lanes">
    <${Table} caption="Lanes of the queue, in the order in which agents serve them" columns=${columns} rows=${queue.lanes} id=${(/** @type {LaneView} */ lane) => lane.lane} />
    <p class="about">Messages of all tenants that use the queue, estimated by SQS. Agents serve the lane high first.</p>
  <//>`;
}

/** @param {{ queue: QueueView }} props */
function Windows({ queue }) {
  /** @type {['submitted' | 'started' | 'completed' | 'failed' | 'retried', string][]} */
  const rows = [['submitted', 'Submitted'], ['started', 'Started'], ['completed', 'Completed'], ['failed', 'Failed or dead'], ['retried', 'Attempts to be repeated']];
  /** @param {Activity} window */
  const title = (window) => `${window.minutes} min`;
  /** @typedef {typeof rows[number]} Row */
  /** @type {import('../parts.js').Column<Row>[]} */
  const columns = [
    { name: 'Jobs (work items)', cell: ([, label]) => label },
    ...queue.activity.map((window) => ({ name: title(window), className: 'number', cell: (/** @type {Row} */ [figure]) => html`${grouped(window[figure].jobs)} <span class="none">(${grouped(window[figure].items)})</span>` })),
    { name: 'per min in 5', className: 'number minor', cell: ([figure]) => {
      const window = activityOf(queue, 5);
      return window ? perMinute(window[figure].jobs, window.span_s) : '–';
    } },
  ];
  return html`<${Section} title="Activity">
    <${Table} caption="Jobs and work items in the last minutes" columns=${columns} rows=${rows} id=${(/** @type {Row} */ row) => row[0]} />
    <p class="about">${can('platform.read') ? 'Jobs of all tenants' : 'Jobs of your tenant'}, counted from changes: some seconds late.</p>
  <//>`;
}

/** @param {QueueView} queue @param {() => void} refresh */
async function pause(queue, refresh) {
  const answer = await confirm({
    title: `Pause queue ${queue.name}?`, action: 'Pause', reason: true,
    text: html`<p>No agent starts a job of it until it is resumed; jobs that run go on. ${grouped(total(queue, 'visible'))} jobs wait.</p>`,
  });
  if (answer) await changeSettings(queue, { run_jobs: false }, answer.reason, `Queue ${queue.name} is paused`, refresh);
}

/** @param {QueueView} queue @param {() => void} refresh */
async function resume(queue, refresh) {
  const answer = await confirm({
    title: `Resume queue ${queue.name}?`, action: 'Resume', reason: true,
    text: html`<p>Agents start its jobs again within 20 s. ${grouped(total(queue, 'visible'))} jobs wait.</p>`,
  });
  if (answer) await changeSettings(queue, { run_jobs: true }, answer.reason, `Queue ${queue.name} runs jobs again`, refresh);
}

/** Actions on all jobs of the tenant in the queue. @param {{ queue: string, sweep: ReturnType<typeof useSweep>, busy: boolean }} props */
function Sweeps({ queue, sweep, busy }) {
  if (!can('admin.mutate') && !can('jobs.cancel')) return null;
  /**
   * @param {{ title: string, label: string, text: string, verb: string, count: string, where: string, query?: Record<string, string | string[]>, danger?: boolean, byType?: boolean }} what
   */
  const ask = async ({ title, label, text, verb, count, where, query = {}, danger = false }) => {
    let type = '';
    const answer = await confirm({
      title, action: label, danger, reason: true,
      text: html`<p>${text}</p>
        <label>Only jobs of this type (all, if empty) <input type="text" maxlength="100" autocomplete="off" onInput=${(/** @type {Event} */ event) => { type = valueOf(event).trim(); }} /></label>`,
    });
    if (!answer) return;
    await sweep.start({ title: `${label}${type ? `, type ${type}` : ''}`, verb }, (report, signal) => sweepPages(
      (next) => call('POST', where, { query: { ...query, type, next, limit: 100 }, body: { reason: answer.reason }, signal }), count, report, signal));
  };
  return html`<${Section} title="Actions on your jobs in this queue"><ul class="deeds">
    ${can('admin.mutate') && html`
      <li><button type="button" disabled=${busy} onClick=${() => ask({
        title: `Restart the failed jobs of queue ${queue}?`, label: 'Restart failed', verb: 'restarted', count: 'restarted', where: path`v1/queues/${queue}/restart-failed`,
        text: 'All failed and dead jobs of the queue start again, with the same ids and their attempts counted from 0.' })}>Restart failed</button>
        <p>Start all failed and dead jobs again, with their attempts counted from 0.</p></li>
      <li><button type="button" disabled=${busy} onClick=${() => ask({
        title: `Requeue the jobs of queue ${queue}?`, label: 'Requeue', verb: 'requeued', count: 'requeued', where: path`v1/queues/${queue}/requeue`,
        text: 'Each job that has not ended gets a new message. No job runs twice because of it.' })}>Requeue</button>
        <p>Send a new message for each job that has not ended, if messages were lost or a lane was emptied.</p></li>`}
    ${can('jobs.cancel') && html`<li><button type="button" class="danger" disabled=${busy} onClick=${() => ask({
        title: `Cancel all jobs that wait in queue ${queue}?`, label: 'Cancel waiting', verb: 'cancelled', count: 'cancelled', where: 'v1/jobs/cancel', danger: true,
        query: { queue, state: 'pending' }, text: 'All pending jobs of your tenant in this queue are cancelled. Jobs that run go on. Cancelled jobs can be submitted again.' })}>Cancel waiting</button>
        <p>Cancel all pending jobs of the queue. Running jobs go on.</p></li>`}
  </ul><//>`;
}
