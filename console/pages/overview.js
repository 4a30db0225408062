/** Overview: what runs, what waits, what needs a look, and whether there are agents for it. */

import { call } from '../api.js';
import { Badge, Empty, Figure, Head, Loading, Reading, Section, SlimBadge, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { attention, busiest, grouped } from '../queue-figures.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { can, canAny, summary } from '../session.js';
import { duration } from '../time.js';
import { html, useEffect, useState, useStore } from '../view.js';
import { QueueTable, useQueues } from './queues.js';

/** @typedef {import('../types').QueueView} QueueView */
/** @typedef {import('../types').Job} Job */

const NEEDS_A_LOOK = ['dead', 'failed', 'blocked', 'stale'];

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const known = useStore(summary);
  const { data, error, refresh } = useQueues();
  if (!known) return html`<${Loading} />`;
  const tenant = known.caller.tenant;
  const queues = data?.entries ?? [];
  return html`
    <${Head} title="Overview" about=${tenant ? `Tenant ${tenant} in ${known.deployment}` : `Deployment ${known.deployment}, all tenants`}>
      ${can('jobs.submit') && html`<a class="button primary" href=${href(['submit'])}>New job</a>`}
    <//>
    ${data && html`<${Attention} known=${known} queues=${queues} />`}
    <${Figures} known=${known} queues=${queues} />
    <${Section} title="Queues" actions=${html`<a href=${href(['queues'])}>All figures</a>`}>
      ${!data && html`<${Reading} error=${error} retry=${refresh} />`}
      ${data && html`<${QueueTable} queues=${queues} brief=${true} />`}
    <//>
    ${queues.length > 0 && html`<${Rates} route=${route} queues=${queues} />`}
    ${can('jobs.read') && html`<${LatestTroubles} />`}`;
}

/** What to look at first. @param {{ known: import('../session.js').Summary, queues: readonly QueueView[] }} props */
function Attention({ known, queues }) {
  const found = attention(known, queues);
  if (!found.length) return html`<p class="calm"><span aria-hidden="true">✓</span> Nothing needs attention.</p>`;
  return html`<ul class="attention" aria-label="What needs attention">${found.map((each) => html`<li class=${each.tone}>
    <span aria-hidden="true">${each.tone === 'bad' ? '✕' : '!'}</span> ${each.to ? html`<a href=${each.to}>${each.text}</a>` : each.text}</li>`)}</ul>`;
}

/** Charts, whose module is loaded after the page is there. @param {{ route: import('../router.js').Route, queues: readonly QueueView[] }} props */
function Rates({ route, queues }) {
  const [Charts, setCharts] = useState(/** @type {any} */ (null));
  const [first] = useState(() => busiest(queues));
  useEffect(() => {
    import('../queue-charts.js').then((module) => setCharts(() => module.ActivityCharts), () => undefined);
  }, []);
  const names = queues.map((queue) => queue.name);
  const asked = route.query.get('queue') ?? '';
  return Charts && html`<${Charts} queue=${names.includes(asked) ? asked : first} route=${route} choices=${names} />`;
}

/** @param {{ known: import('../session.js').Summary, queues: readonly QueueView[] }} props */
function Figures({ known, queues }) {
  const { agents } = known;
  const states = known.jobs?.by_state;
  const atLeast = agents.more ? 'at least ' : '';
  const ages = queues.flatMap(({ jobs }) => jobs?.oldest?.age_s ?? []);
  const about = `${atLeast}${agents.free} of ${agents.slots} slots free`;
  return html`<div class="figures">
    ${states && html`
      <${Figure} name="Running" value=${grouped(states.active ?? 0)} to=${href(['jobs'], { state: 'active' })} />
      <${Figure} name="Pending" value=${grouped(states.pending ?? 0)} to=${href(['jobs'], { state: 'pending' })} />
      <${Figure} name="Waiting" value=${grouped((states.waiting ?? 0) + (states.scheduled ?? 0) + (states.retry ?? 0) + (states.blocked ?? 0))} note="for a key, a time or a condition"
        to=${href(['jobs'], { state: ['waiting', 'scheduled', 'retry', 'blocked'] })} />
      <${Figure} name="Failed" value=${grouped(states.failed ?? 0)} tone=${states.failed ? 'warn' : ''} to=${href(['jobs'], { state: 'failed' })} />
      <${Figure} name="Dead" value=${grouped(states.dead ?? 0)} tone=${states.dead ? 'bad' : ''} to=${href(can('admin.read') ? ['dead'] : ['jobs'], can('admin.read') ? {} : { state: 'dead' })} />`}
    <${Figure} name="Agents" value=${`${atLeast}${agents.alive}`} tone=${agents.alive ? '' : 'bad'} note=${agents.alive ? about : 'no job can start'}
      ...${can('platform.read') ? { to: href(['agents']) } : {}} />
    ${ages.length > 0 && html`<${Figure} name="Oldest waiting" value=${duration(Math.max(...ages))} note="of all queues" to=${href(['queues'])} />`}
    ${can('platform.read') && html`
      <${Figure} name="Slots in use" value=${agents.running} note=${`of ${agents.slots}, all tenants`} to=${href(['agents'])} />
      <${Figure} name="Cordoned or draining" value=${agents.cordoned} note="take no new jobs" to=${href(['agents'], { state: 'leaving' })} />
      <${Figure} name="In trouble" value=${agents.troubled} tone=${agents.troubled ? 'warn' : ''} note="agents" to=${href(['agents'], { state: 'trouble' })} />`}
  </div>`;
}

function LatestTroubles() {
  const { data, error, refresh } = usePoll(
    (signal) => /** @type {Promise<import('../types').JobPage>} */ (call('GET', 'v1/jobs', { query: { state: NEEDS_A_LOOK, limit: 10 }, signal })), 10_000, []);
  const jobs = data?.entries ?? [];
  return html`<${Section} title="Needs a look" actions=${html`<a href=${href(['jobs'], { state: NEEDS_A_LOOK })}>All of them</a>`}>
    ${!data && html`<${Reading} error=${error} retry=${refresh} />`}
    ${data && !jobs.length && html`<${Empty}><p>No job has failed or is blocked.</p>${canAny('jobs.submit') && html`<p>Submit one with <code>joblane run -- echo hello</code> or <a href=${href(['submit'])}>here</a>.</p>`}<//>`}
    ${jobs.length > 0 && html`<${Table} caption="Jobs that need a look" rows=${jobs} id=${(/** @type {Job} */ job) => job.id}
      to=${(/** @type {Job} */ job) => href(['jobs', job.id])}
      columns=${[
        { name: 'Job', className: 'short', cell: (/** @type {Job} */ job) => html`${job.name ?? job.type ?? job.command.join(' ').slice(0, 60)}<${SlimBadge} state=${job.state} />` },
        { name: 'State', className: 'minor', cell: (/** @type {Job} */ job) => html`<${Badge} state=${job.state} />` },
        { name: 'Why', className: 'wide', cell: (/** @type {Job} */ job) => html`<span class="clamp"><${Sentence} text=${job.reason} /></span>` },
        { name: 'Since', cell: (/** @type {Job} */ job) => html`<${Time} at=${job.timeline.at(-1)?.at} />` },
      ]} />`}
  <//>`;
}
