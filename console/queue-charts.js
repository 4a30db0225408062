/** Charts of what a queue did over an hour or a day. */

import { call, path } from './api.js';
import { Chart } from './chart.js';
import { Choice, setQuery } from './fields.js';
import { Reading, Section, Time } from './parts.js';
import { usePoll } from './poll.js';
import { html, useMemo } from './view.js';

/** @typedef {import('./types').QueueActivity} Points */

/** @type {['submitted' | 'started' | 'completed' | 'failed' | 'retried', string, import('./chart.js').Series['colour'], number[] | undefined][]} */
const LINES = [
  ['submitted', 'Submitted', 'idle', [2, 3]],
  ['started', 'Started', 'accent', undefined],
  ['completed', 'Completed', 'good', [9, 4]],
  ['failed', 'Failed', 'bad', [5, 2, 1, 2]],
  ['retried', 'Attempts to be repeated', 'warn', [1, 4]],
];

/**
 * Rates per minute and waits of points that are complete; what is still being counted is left out.
 * @param {Points} data
 */
export function linesOf({ points, step_s, complete_until }) {
  const until = Date.parse(complete_until);
  const complete = points.filter((point) => Date.parse(point.at) + step_s * 1000 <= until);
  const minutes = step_s / 60;
  return {
    at: complete.map((point) => Date.parse(point.at) / 1000),
    rates: LINES.map(([figure, name, colour, dash]) => ({
      name, colour, ...(dash ? { dash } : {}), values: complete.map((point) => Number((point[figure] / minutes).toFixed(2))),
    })),
    waits: [{ name: 'Mean wait', colour: /** @type {const} */ ('accent'), values: complete.map((point) => (point.mean_wait_s === null ? null : Number(point.mean_wait_s.toFixed(3)))) }],
  };
}

/**
 * Rates and waits; the span is in the address, and the queue if there is a choice.
 * @param {{ queue: string, route: import('./router.js').Route, choices?: readonly string[] }} props
 */
export function ActivityCharts({ queue, route, choices = [] }) {
  const span = route.query.get('span') === '24h' ? '24h' : '1h';
  const { data, error, refresh } = usePoll(
    (signal) => /** @type {Promise<Points>} */ (call('GET', path`v1/queues/${queue}/activity`, { query: { span }, signal })), span === '1h' ? 15_000 : 60_000, [queue, span]);
  const lines = useMemo(() => (data ? linesOf(data) : null), [data]);
  const tabs = html`${choices.length > 1 && html`<${Choice} label="Queue" value=${queue} options=${choices.map((name) => [name, name])} onValue=${(/** @type {string} */ value) => setQuery(route, { queue: value })} />`}<div class="tabs" role="group" aria-label="Span of the charts">
    ${[['1h', '1 hour'], ['24h', '24 hours']].map(([value = '', label]) => html`<button type="button" aria-current=${value === span ? 'true' : undefined} onClick=${() => setQuery(route, { span: value === '1h' ? null : value })}>${label}</button>`)}
  </div>`;
  return html`<${Section} title=${choices.length ? `Rates and waits of queue ${queue}` : 'Rates and waits'} actions=${tabs}>
    ${!lines && html`<${Reading} error=${error} retry=${refresh} />`}
    ${lines && html`<div class="grid">
      <div><h3>Jobs per minute</h3><${Chart} title=${`Jobs of queue ${queue} per minute`} at=${lines.at} series=${lines.rates} /></div>
      <div><h3>Mean wait for a start</h3><${Chart} title=${`Mean wait of jobs of queue ${queue}`} at=${lines.at} series=${lines.waits} unit=" s" /></div>
    </div>
    <p class="about">${data?.step_s === 60 ? 'A point is a minute.' : `A point is the mean of ${(data?.step_s ?? 0) / 60} minutes.`} Complete until <${Time} at=${data?.complete_until} full=${true} />.</p>`}
  <//>`;
}
