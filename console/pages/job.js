/** One job: where it stands and why, its timeline, its output, and what may be done with it. */

import { call, path } from '../api.js';
import { hasEnded, isGroup, nameOf } from '../job-actions.js';
import { Badge, Copy, Facts, Head, Id, Reading, Section, Span, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { can } from '../session.js';
import { html, useRef } from '../view.js';
import { Actions } from './job-buttons.js';
import { Audit, Files, Links, relatedTo, Specification, Timeline, Usage } from './job-parts.js';
import { Output } from './job-log.js';

/** @typedef {import('../types').Job} Job */

/** States whose reason says less than the output does: it comes first. */
const WRITES = ['active', 'completed'];

const MOVING_MS = 3000;
const ENDED_MS = 15_000;

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const id = route.path[1] ?? '';
  return html`<${JobPage} key=${id} id=${id} />`;
}

/** @param {{ id: string }} props */
function JobPage({ id }) {
  const every = useRef(MOVING_MS);
  const { data, error, refresh } = usePoll(
    (signal) => /** @type {Promise<Job>} */ (call('GET', path`v1/jobs/${id}`, { signal })), every.current, [id]);
  if (!data) {
    return html`<${Head} title=${`Job ${id}`} /><${Reading} error=${error} retry=${refresh} />`;
  }
  const job = data;
  const ended = hasEnded(job);
  const group = isGroup(job);
  every.current = ended ? ENDED_MS : MOVING_MS;
  const why = html`<${Why} key="why" job=${job} />`;
  const output = !group && html`<${Output} key="output" job=${job} ended=${ended} />`;
  return html`
    <${Head} title=${nameOf(job, 90)} about=${html`<${Badge} state=${job.state} /> ${job.hidden && html`<span>hidden · </span>`}<${Id} text=${job.id} /><${Copy} text=${job.id} what="the id" />${job.group && html` index ${job.index} of group <a href=${href(['groups', job.group])}><${Id} text=${job.group} /></a>`}`}>
      <${Actions} job=${job} refresh=${refresh} />
    <//>
    ${job.progress && html`<${Done} job=${job} />`}
    ${group && html`<div class="notice"><p>This is a group of ${job.members ?? 'some'} jobs, one for each ${job.array ? 'index' : 'agent'}.</p>
      <a class="button" href=${href(['groups', job.id])}>Show its members</a></div>`}
    ${WRITES.includes(job.state) ? [output, why] : [why, output]}
    ${job.result !== null && html`<${Section} title="Result" actions=${html`<${Copy} text=${JSON.stringify(job.result, null, 2)} what="the result" />`}>
      <pre class="code" tabindex="0">${JSON.stringify(job.result, null, 2)}</pre><//>`}
    <${Files} job=${job} />
    <div class="columns">
      <${Timeline} job=${job} />
      <${Usage} job=${job} />
      <${Overview} job=${job} />
      <${Links} job=${job} />
    </div>
    <${Specification} job=${job} />
    <${Audit} id=${job.id} state=${job.state} />`;
}

/** Why it waits, runs or has ended. @param {{ job: Job }} props */
function Why({ job }) {
  const { data } = usePoll(
    (signal) => /** @type {Promise<import('../types').Why>} */ (call('GET', path`v1/jobs/${job.id}/why`, { signal })),
    hasEnded(job) ? 0 : 10_000, [job.id, job.state, job.attempt, job.cancel_requested]);
  const bad = ['failed', 'dead', 'stale', 'expired'].includes(job.state) ? 'bad' : '';
  const rest = data?.reasons.slice(1) ?? []; // the summary has the first one
  const commands = [...new Set(data?.reasons.flatMap((reason) => reason.commands))];
  return html`<section class=${`panel why ${bad}`} aria-labelledby="why">
    <h2 id="why">Why</h2>
    <p class="hidden" role="status">The job is ${job.state.replaceAll('_', ' ')}.</p>
    <p><${Sentence} text=${data?.summary ?? job.reason} /></p>
    ${rest.length > 0 && html`<ul>${rest.map((reason) => html`<li key=${reason.code + (reason.facts.fleet ?? '')}><${Sentence} text=${reason.text} /></li>`)}</ul>`}
    ${job.cancel_requested !== null && !data && html`<p>It was asked to stop: ${job.cancel_requested}</p>`}
    ${commands.length > 0 && html`<details><summary>Commands</summary><ul class="commands">${commands.map((command) => html`<li><code>${command}</code></li>`)}</ul></details>`}
  </section>`;
}

/** What the running attempt has reported. @param {{ job: Job }} props */
function Done({ job }) {
  if (!job.progress) return null;
  const { percent, message, step, at } = job.progress;
  return html`<p class="done">${percent !== null && html`<progress max="100" value=${percent} aria-label="Progress"></progress> ${Math.round(percent)} % `}
    ${step} ${message} <span class="about">(<${Time} at=${at} />)</span></p>`;
}

/** @param {{ job: Job }} props */
function Overview({ job }) {
  const ended = hasEnded(job);
  const agent = job.agent ?? job.assigned;
  return html`<${Section} title="At a glance">
    <${Facts} entries=${[
      ['Attempt', job.attempt ? `${job.attempt} of ${job.retry.max_attempts}` : `0 of ${job.retry.max_attempts}`],
      ['Queue', html`<a href=${href(['queues', job.queue])}>${job.queue}</a> ${job.priority !== 'default' && html`<span class="about">priority ${job.priority}</span>`}`],
      ['Agent', agent && html`<span class="ellipsis" title=${agent}>${agent}</span>`],
      ['Exit code', job.exit_code],
      ['Signal', job.signal],
      ['Outcome', job.outcome?.replaceAll('_', ' ')],
      ['Condition', job.condition && (can('admin.read') ? html`<a href=${href(['conditions'])}>${job.condition}</a>` : job.condition)],
      ['Next attempt', job.next_at && !ended && html`<${Time} at=${job.next_at} />`],
      ['Submitted', html`<${Time} at=${job.created_at} />`],
      ['Started', job.started_at && html`<${Time} at=${job.started_at} />`],
      ['Ended', job.ended_at && html`<${Time} at=${job.ended_at} />`],
      ['Total time', html`<${Span} from=${job.created_at} to=${job.ended_at} />`],
      ['Submitted by', job.submitted_by?.name],
      ...relatedTo(job),
    ]} />
  <//>`;
}
