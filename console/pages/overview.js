/** Overview: what runs, what waits, what needs a look, and whether there are agents for it. */

import { call } from '../api.js';
import { Badge, Empty, Failure, Figure, Head, Loading, Section, Table, Time } from '../parts.js';
import { useList } from '../lists.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { can, canAny, summary } from '../session.js';
import { duration } from '../time.js';
import { html, useStore } from '../view.js';

/** @typedef {import('../types').QueueView} QueueView */
/** @typedef {import('../types').Job} Job */

const NEEDS_A_LOOK = ['dead', 'failed', 'blocked', 'stale'];

export default function Page() {
  const known = useStore(summary);
  if (!known) return html`<${Loading} />`;
  const tenant = known.caller.tenant;
  return html`
    <${Head} title="Overview" about=${tenant ? `Tenant ${tenant} in ${known.deployment}` : `Deployment ${known.deployment}`}>
      ${can('jobs.submit') && html`<a class="button primary" href=${href(['submit'])}>New job</a>`}
    <//>
    <${Figures} known=${known} />
    <${Queues} />
    ${can('jobs.read') && html`<${Attention} />`}`;
}

/** @param {{ known: import('../session.js').Summary }} props */
function Figures({ known }) {
  const { agents } = known;
  const states = known.jobs?.by_state;
  const atLeast = agents.more ? 'at least ' : '';
  const about = `${atLeast}${agents.free} of ${agents.slots} slots free`;
  return html`<div class="figures">
    ${states && html`
      <${Figure} name="Running" value=${states.active ?? 0} to=${href(['jobs'], { state: 'active' })} />
      <${Figure} name="Pending" value=${states.pending ?? 0} to=${href(['jobs'], { state: 'pending' })} />
      <${Figure} name="Waiting" value=${(states.waiting ?? 0) + (states.scheduled ?? 0) + (states.retry ?? 0) + (states.blocked ?? 0)} note="for a key, a time or a condition"
        to=${href(['jobs'], { state: ['waiting', 'scheduled', 'retry', 'blocked'] })} />
      <${Figure} name="Failed" value=${states.failed ?? 0} tone=${states.failed ? 'warn' : ''} to=${href(['jobs'], { state: 'failed' })} />
      <${Figure} name="Dead" value=${states.dead ?? 0} tone=${states.dead ? 'bad' : ''} to=${href(can('admin.read') ? ['dead'] : ['jobs'], can('admin.read') ? {} : { state: 'dead' })} />`}
    <${Figure} name="Agents" value=${`${atLeast}${agents.alive}`} tone=${agents.alive ? '' : 'bad'} note=${agents.alive ? about : 'no job can start'}
      ...${can('platform.read') ? { to: href(['agents']) } : {}} />
    ${agents.troubled > 0 && html`<${Figure} name="Agents in trouble" value=${agents.troubled} tone="warn" ...${can('platform.read') ? { to: href(['agents']) } : {}} />`}
  </div>`;
}

function Queues() {
  const { data, error, refresh } = usePoll(
    (signal) => /** @type {Promise<{ entries: QueueView[] }>} */ (call('GET', 'v1/queues', { signal })), 10_000, []);
  return html`<${Section} title="Queues" actions=${html`<a href=${href(['queues'])}>All of them</a>`}>
    ${!data && (error ? html`<${Failure} error=${error} retry=${refresh} />` : html`<${Loading} />`)}
    ${data && html`<${Table} caption="Queues" rows=${data.entries} id=${(/** @type {QueueView} */ queue) => queue.name}
      to=${(/** @type {QueueView} */ queue) => href(['queues', queue.name])}
      columns=${[
        { name: 'Queue', cell: (/** @type {QueueView} */ queue) => queue.name },
        { name: 'State', cell: (/** @type {QueueView} */ queue) => (queue.settings.run_jobs ? 'runs' : html`<strong>‖ paused</strong>`) },
        { name: 'Waiting', className: 'number', cell: (/** @type {QueueView} */ queue) => total(queue, 'visible') },
        { name: 'In flight', className: 'number', cell: (/** @type {QueueView} */ queue) => total(queue, 'in_flight') },
        { name: 'Oldest', className: 'number', cell: oldest },
        { name: 'Started in 5 min', className: 'number minor', cell: (/** @type {QueueView} */ queue) => activity(queue)?.started.jobs ?? 0 },
        { name: 'Mean wait', className: 'number minor', cell: (/** @type {QueueView} */ queue) => duration(activity(queue)?.mean_wait_s ?? NaN) || '–' },
        { name: 'Failed in 5 min', className: 'number', cell: (/** @type {QueueView} */ queue) => activity(queue)?.failed.jobs ?? 0 },
      ]} />`}
  <//>`;
}

/** @param {QueueView} queue */
function activity(queue) {
  return queue.activity.find((window) => window.minutes === 5);
}

/** @param {QueueView} queue @param {'visible' | 'in_flight'} figure */
function total(queue, figure) {
  return queue.lanes.reduce((sum, lane) => sum + lane[figure], 0);
}

/** @param {QueueView} queue */
function oldest(queue) {
  const ages = queue.lanes.flatMap((lane) => (lane.oldest_s === null ? [] : [lane.oldest_s]));
  return ages.length ? duration(Math.max(...ages)) : '–';
}

function Attention() {
  const { data, error, refresh } = useList('v1/jobs', { state: NEEDS_A_LOOK }, { most: 10, everyMs: 10_000 });
  const jobs = /** @type {Job[]} */ (data?.entries ?? []);
  return html`<${Section} title="Needs a look" actions=${html`<a href=${href(['jobs'], { state: NEEDS_A_LOOK })}>All of them</a>`}>
    ${!data && (error ? html`<${Failure} error=${error} retry=${refresh} />` : html`<${Loading} />`)}
    ${data && !jobs.length && html`<${Empty}><p>No job has failed or is blocked.</p>${canAny('jobs.submit') && html`<p>Submit one with <code>joblane run -- echo hello</code> or <a href=${href(['submit'])}>here</a>.</p>`}<//>`}
    ${jobs.length > 0 && html`<${Table} caption="Jobs that need a look" rows=${jobs} id=${(/** @type {Job} */ job) => job.id}
      to=${(/** @type {Job} */ job) => href(['jobs', job.id])}
      columns=${[
        { name: 'Job', cell: (/** @type {Job} */ job) => job.name ?? job.type ?? job.command.join(' ').slice(0, 60) },
        { name: 'State', cell: (/** @type {Job} */ job) => html`<${Badge} state=${job.state} />` },
        { name: 'Why', className: 'wide', cell: (/** @type {Job} */ job) => job.reason },
        { name: 'Since', cell: (/** @type {Job} */ job) => html`<${Time} at=${job.timeline.at(-1)?.at} />` },
      ]} />`}
  <//>`;
}
