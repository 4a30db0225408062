/** Queues: their lengths, what they did lately, and what keeps them from their work. */

import { call } from '../api.js';
import { Empty, Head, Reading, Section, Table } from '../parts.js';
import { usePoll } from '../poll.js';
import { activityOf, grouped, oldest, open, perMinute, retirement, total, troubles } from '../queue-figures.js';
import { href } from '../router.js';
import { duration } from '../time.js';
import { html } from '../view.js';

/** @typedef {import('../types').QueueView} QueueView */

/** Reads all queues again and again. */
export function useQueues() {
  return usePoll((signal) => /** @type {Promise<import('../types').QueuePage>} */ (call('GET', 'v1/queues', { signal })), 10_000, []);
}

export default function Page() {
  const { data, error, refresh } = useQueues();
  return html`
    <${Head} title="Queues" about="Waiting, in flight and delayed are SQS's estimates of messages, of all tenants; running are your jobs (items); rates are of the last 5 minutes." />
    <${Section} title=${data ? `${data.entries.length} ${data.entries.length === 1 ? 'queue' : 'queues'}` : 'Queues'}>
      ${!data && html`<${Reading} error=${error} retry=${refresh} />`}
      ${data && !data.entries.length && html`<${Empty}><p>This tenant may use no queue.</p><p>Queues are declared in <code>joblane.toml</code>: <code>[queues.NAME]</code>.</p><//>`}
      ${data && data.entries.length > 0 && html`<${QueueTable} queues=${data.entries} />`}
    <//>`;
}

/** @param {{ queues: readonly QueueView[], brief?: boolean }} props  `brief` leaves out the columns of little weight. */
export function QueueTable({ queues, brief = false }) {
  /** @type {import('../parts.js').Column<QueueView>[]} */
  const columns = [
    { name: 'Queue', className: 'name', cell: (queue) => queue.name },
    { name: 'State', cell: (queue) => html`<${QueueState} queue=${queue} />` },
    { name: 'Running', className: 'number', cell: (queue) => open(queue.jobs?.running) },
    { name: 'Waiting', className: 'number', cell: (queue) => count(total(queue, 'visible')) },
    { name: 'In flight', className: 'number', cell: (queue) => count(total(queue, 'in_flight')) },
    { name: 'Delayed', className: 'number minor', cell: (queue) => count(total(queue, 'delayed')) },
    { name: 'Oldest waiting', className: 'number', cell: oldest },
    { name: 'Submitted/min', className: 'number minor', cell: (queue) => rate(queue, 'submitted') },
    { name: 'Started/min', className: 'number minor', cell: (queue) => rate(queue, 'started') },
    { name: 'Failed/min', className: 'number minor', cell: (queue) => rate(queue, 'failed') },
    { name: 'Mean wait', className: 'number minor', cell: (queue) => duration(activityOf(queue, 5)?.mean_wait_s ?? NaN) || '–' },
    { name: 'Limits', className: 'minor', cell: limits },
  ];
  const left = brief ? columns.filter((column) => !['Delayed', 'Limits'].includes(column.name)) : columns;
  return html`<${Table} caption="Queues" columns=${left} rows=${queues}
    id=${(/** @type {QueueView} */ queue) => queue.name} to=${(/** @type {QueueView} */ queue) => href(['queues', queue.name])} />`;
}

/** Whether a queue runs jobs, and what is wrong with it. @param {{ queue: QueueView }} props */
export function QueueState({ queue }) {
  const runs = queue.settings.run_jobs;
  return html`<span class=${`badge ${runs ? 'is-ready' : 'is-retry'}`}><span aria-hidden="true">${runs ? '✓' : '‖'}</span> ${runs ? 'runs' : 'paused'}</span>
    ${queue.retired && html` <span class="badge is-retry" title=${retirement(queue)}><span aria-hidden="true">⤳</span> retired</span>`}
    ${troubles(queue).map((text) => html` <span class="badge is-failed long"><span aria-hidden="true">!</span> ${text}</span>`)}`;
}

/** @param {QueueView} queue @param {'submitted' | 'started' | 'failed'} figure */
function rate(queue, figure) {
  const window = activityOf(queue, 5);
  return window ? perMinute(window[figure].jobs, window.span_s) : '–';
}

/** @param {number} value @param {string} [tone] */
function count(value, tone = '') {
  return value ? html`<span class=${tone && `tone-${tone}`}>${grouped(value)}</span>` : html`<span class="none">0</span>`;
}

/** @param {QueueView} queue */
function limits({ settings }) {
  const each = `${settings.threads ?? settings.threads_declared} an agent`;
  return settings.cluster_threads === null ? each : `${each}, ${settings.cluster_threads} in all`;
}
