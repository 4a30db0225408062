/** One agent: what it is, what it runs, and how to take it out of service. */

import { ApiError, call, path } from '../api.js';
import { confirm, perform } from '../dialogs.js';
import { Choice } from '../fields.js';
import { linksFor } from '../links.js';
import { Badge, Empty, Facts, Figure, Head, Meter, Reading, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { can, summary } from '../session.js';
import { html, useStore } from '../view.js';
import { KindBadge } from './agents.js';

/** @typedef {import('../types').AgentDetail} AgentDetail */
/** @typedef {import('../types').AgentJob} AgentJob */

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const name = route.path[1] ?? '';
  const { data: agent, error, refresh } = usePoll(
    (signal) => /** @type {Promise<AgentDetail>} */ (call('GET', path`v1/agents/${name}`, { signal })), 5000, [name]);
  const links = linksFor(useStore(summary)?.links ?? [], 'agent', { agent: name });
  if (!agent) {
    return html`<${Head} title=${`Agent ${name}`} />
      <${Reading} error=${error} retry=${refresh} />`;
  }
  // An agent that has stopped is no longer listed; what was read last stays on the page.
  const left = error instanceof ApiError && error.status === 404;
  const labels = Object.entries(agent.labels);
  const facts = Object.entries(agent.facts).sort(([a], [b]) => (a < b ? -1 : 1));
  return html`
    <${Head} title=${`Agent ${name}`} about=${html`<${KindBadge} agent=${agent} /> last heartbeat <${Time} at=${agent.last_seen_at} />`}>
      ${links.map((link) => html`<a class="button" href=${link.url} rel="noopener noreferrer" target="_blank">${link.name}</a>`)}
      ${!left && html`<${Actions} agent=${agent} refresh=${refresh} />`}
    <//>
    ${agent.trouble && html`<div class="notice bad" role="alert"><p><strong>In trouble:</strong> ${agent.trouble}</p></div>`}
    ${left && html`<div class="notice" role="status"><p>The agent has stopped. The page shows it as it was.</p></div>`}
    ${!left && agent.state !== 'ready' && html`<div class="notice warn"><p>${MEANING[agent.state]}</p></div>`}
    <div class="figures">
      <${Figure} name="Running" value=${agent.running} note=${html`<${Meter} value=${agent.running} most=${agent.threads} label="Slots in use" />`} />
      <${Figure} name="Slots" value=${agent.threads} note="jobs at once" />
      <${Figure} name="Started" value=${html`<${Time} at=${agent.started_at} />`} note="this process" />
      <${Figure} name="Version" value=${agent.version} note=${`isolation: ${agent.isolation}`} />
    </div>
    <div class="grid">
      <${Section} title="Jobs">
        ${agent.jobs.length ? html`<${Jobs} jobs=${agent.jobs} />` : html`<${Empty}><p>It runs no job${agent.alive ? '' : ': it is gone'}.</p><//>`}
        <p class="about">As of its last heartbeat.</p>
      <//>
      <${Section} title="Queues and labels">
        <${Facts} entries=${[
          ...(agent.lacks.length ? [['Cannot give', agent.lacks.join(', ')]] : []),
          ...(agent.memory_mb === null ? [] : [['Most memory of a job', `${agent.memory_mb} MiB`]]),
          ...(agent.cores === null ? [] : [['Cores', agent.cores]]),
          ...(agent.disk === null ? [] : [['Disk for jobs', `${agent.disk.free_mb} of ${agent.disk.most_mb} MiB free`]]),
          ...(agent.work_disk === null ? [] : [['Disk for work directories', `${agent.work_disk.free_mb} of ${agent.work_disk.most_mb} MiB free`]]),
          ...(agent.load === null ? [] : [['Load of the host', agent.load]]),
          ...(agent.free_memory_mb === null ? [] : [['Free memory of the host', `${agent.free_memory_mb} MiB`]]),
          ...(agent.state_pool === null ? [] : [['State service', `${agent.state_pool.acquisitions} requests, ${agent.state_pool.errors} errors, ${agent.state_pool.timeouts} timeouts`]]),
          ['Queues', html`<span class="chips">${agent.queues.map((queue) => html`<a href=${href(['queues', queue])}>${queue}</a>`)}</span>`],
          ...labels.map(([label, value]) => [`Label ${label}`, html`<a href=${href(['agents'], { label: `${label}=${value}` })}>${value}</a>`]),
        ]} />
        ${labels.length > 0 && html`<p class="about">A job with the target <code>${labels[0]?.join(':')}</code> runs on every agent with this label.</p>`}
      <//>
    </div>
    <${Section} title="Facts">
      ${facts.length ? html`<${Facts} entries=${facts.map(([fact, value]) => [fact, html`<span title=${`@fact.${fact}`}>${String(value)}</span>`])} />
        <p class="about">A job refers to a fact as <code>@fact.NAME</code>.</p>` : html`<${Empty}><p>No facts are known: the agent is gone.</p><//>`}
    <//>`;
}

/** What the states mean that are not `ready`. @type {Record<AgentDetail['state'], string>} */
const MEANING = {
  ready: '',
  cordoning: 'Cordoned: it takes no new jobs; those that run continue.',
  cordoned: 'Cordoned: it takes no jobs until it is uncordoned.',
  draining: 'Draining: it takes no new jobs, hands back those that do not end in time, and stops.',
  gone: 'Gone: no heartbeat for the time of its lease. Other agents take over its jobs.',
};

/** @param {{ jobs: readonly AgentJob[] }} props */
function Jobs({ jobs }) {
  const own = can('jobs.read');
  /** @type {import('../parts.js').Column<AgentJob>[]} */
  const columns = [
    { name: 'Job', cell: (job) => html`<code class="id">${job.id}</code>` },
    { name: 'State', cell: (job) => html`<${Badge} state=${job.state} />` },
    { name: 'Tenant', cell: (job) => job.tenant },
    { name: 'Queue', cell: (job) => html`<a href=${href(['queues', job.queue])}>${job.queue}</a>` },
  ];
  return html`<${Table} caption="Jobs of the agent" columns=${columns} rows=${jobs} id=${(/** @type {AgentJob} */ job) => job.id} ...${own ? { to: (/** @type {AgentJob} */ job) => href(['jobs', job.id]) } : {}} />`;
}

/** @param {{ agent: AgentDetail, refresh: () => void }} props */
function Actions({ agent, refresh }) {
  if (!can('platform.mutate') || agent.state === 'gone') return null;
  /** @param {{ verb: string, label: string, text: string, danger?: boolean }} what */
  const ask = async ({ verb, label, text, danger = false }) => {
    const answer = await confirm({ title: `${label} agent ${agent.name}?`, text: html`<p>${text}</p>`, action: label, danger, reason: true });
    if (!answer) return;
    await perform((asked) => `${asked.note}.`, () =>
      /** @type {Promise<import('../types').AgentAsked>} */ (call('POST', `${path`v1/agents/${agent.name}`}/${verb}`, { body: { reason: answer.reason } })));
    refresh();
  };
  const setLevel = async () => {
    let [level, seconds] = ['debug', '1800'];
    const answer = await confirm({
      title: `Set the log level of agent ${agent.name}?`, action: 'Set level', reason: true,
      text: html`<p>It writes events of this level and above to its log. Then the level is info again.</p><div class="bar">
        <${Choice} label="Level" value=${level} options=${['debug', 'info', 'warning'].map((each) => [each, each])} onValue=${(/** @type {string} */ value) => { level = value; }} />
        <${Choice} label="Duration" value=${seconds} options=${[['600', '10 min'], ['1800', '30 min'], ['7200', '2 h'], ['86400', '1 day']]} onValue=${(/** @type {string} */ value) => { seconds = value; }} /></div>`,
    });
    if (!answer) return;
    await perform((asked) => `${asked.note}.`, () => /** @type {Promise<import('../types').AgentAsked>} */ (
      call('POST', path`v1/agents/${agent.name}/log-level`, { body: { level, for_s: Number(seconds), reason: answer.reason } })));
  };
  const jobs = agent.running === 1 ? 'the job that it runs' : `the ${agent.running} jobs that it runs`;
  return html`
    <button type="button" onClick=${setLevel}>Log level</button>
    ${agent.state === 'ready' && html`<button type="button" onClick=${() => ask({ verb: 'cordon', label: 'Cordon', text: `It takes no new jobs and stays${agent.running ? `; ${jobs} will go on` : ''}.` })}>Cordon</button>`}
    ${(agent.state === 'cordoned' || agent.state === 'cordoning') && html`<button type="button" class="primary" onClick=${() => ask({ verb: 'uncordon', label: 'Uncordon', text: 'It takes jobs again.' })}>Uncordon</button>`}
    ${agent.state !== 'draining' && html`<button type="button" class="danger" onClick=${() => ask({ verb: 'drain', label: 'Drain', danger: true, text: `It takes no new jobs and stops. ${agent.running ? `What does not end in time (60 s by default) of ${jobs} returns to its queue, and other agents run it again. ` : ''}An instance of a fleet is replaced ten minutes later; elsewhere somebody has to start the agent again.` })}>Drain</button>`}`;
}
