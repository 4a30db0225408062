/** Agents: a map or a table of all, with filters. */

import { countKinds, groupsOf, isWanted, kindOf, aboutKind, pairs } from '../agent-figures.js';
import { AgentMap, Legend } from '../agent-map.js';
import { Choice, SearchField, setQuery, valueOf } from '../fields.js';
import { PAGE, readList } from '../lists.js';
import { Empty, Head, Reading, Section, Table } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { relative } from '../time.js';
import { html, useMemo, useRef, useState } from '../view.js';

/** @typedef {import('../types').AgentView} AgentView */

const MOST = 2000;
const FACTS = 10;

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const { query } = route;
  const facts = query.getAll('fact').slice(0, FACTS);
  const pages = useRef(1);
  const { data, error, at, refresh } = usePoll(
    (signal) => /** @type {Promise<import('../lists.js').List<AgentView>>} */ (readList('v1/agents', { fact: facts }, MOST, signal)),
    5000 * pages.current, [facts.join('\n')]);
  pages.current = Math.max(1, Math.ceil((data?.entries.length ?? 0) / PAGE));
  const wanted = { find: query.get('find') ?? '', queue: query.get('queue') ?? '', label: query.get('label') ?? '', kind: query.get('state') ?? '' };
  const agents = data?.entries ?? [];
  const asTable = query.get('view') === 'table';
  const by = query.get('by') ?? '';
  const shown = useMemo(() => agents.filter((agent) => isWanted(agent, wanted)), [data, query.toString()]);
  const counts = useMemo(() => countKinds(agents.filter((agent) => isWanted(agent, { ...wanted, kind: '' }))), [data, query.toString()]);
  const slots = shown.reduce((sum, agent) => sum + (agent.alive ? agent.threads : 0), 0);
  const running = shown.reduce((sum, agent) => sum + agent.running, 0);
  return html`
    <${Head} title="Agents" about=${data ? `${shown.length}${data.next ? ` of more than ${MOST}` : shown.length === agents.length ? '' : ` of ${agents.length}`} agents, ${running} of ${slots} slots in use, as of their last heartbeats` : ''}>
      <div class="tabs" role="group" aria-label="Form of the page">
        ${[['', 'Map'], ['table', 'Table']].map(([value = '', label]) => html`<button type="button" aria-current=${asTable === (value === 'table') ? 'true' : undefined} onClick=${() => setQuery(route, { view: value })}>${label}</button>`)}
      </div>
    <//>
    ${!data && html`<${Reading} error=${error} retry=${refresh} />`}
    ${data && !agents.length && html`<${Section} title="No agents"><${Empty}><p>No agent has reported to this deployment.</p>
      <p>Start one on this machine with <code>joblane agent</code>, or declare a fleet in <code>joblane.toml</code> and deploy.</p><//><//>`}
    ${agents.length > 0 && html`<${Section} title=${asTable ? 'All agents' : 'Map'} actions=${html`<${Legend} counts=${counts} kind=${wanted.kind} onKind=${(/** @type {string} */ kind) => setQuery(route, { state: kind })} />`}>
      <${Filters} route=${route} agents=${agents} wanted=${wanted} by=${by} facts=${facts} asTable=${asTable} />
      ${!shown.length && html`<${Empty}><p>No agent matches these filters.</p><button type="button" onClick=${() => setQuery(route, { find: null, queue: null, label: null, state: null })}>Show all</button><//>`}
      ${shown.length > 0 && (asTable ? html`<${AgentTable} agents=${shown} facts=${facts} at=${at} />` : html`<${AgentMap} groups=${groupsOf(shown, by)} />`)}
    <//>`}`;
}

/**
 * @param {{ route: import('../router.js').Route, agents: readonly AgentView[], wanted: import('../agent-figures.js').Wanted, by: string, facts: string[], asTable: boolean }} props
 */
function Filters({ route, agents, wanted, by, facts, asTable }) {
  const [fact, setFact] = useState('');
  const queues = [...new Set(agents.flatMap((agent) => agent.queues))].sort();
  const labels = [...new Set(agents.flatMap((agent) => pairs(agent.labels)))].sort().slice(0, 200);
  const labelNames = [...new Set(agents.flatMap((agent) => Object.keys(agent.labels)))].sort();
  /** @param {string[]} names */
  const setFacts = (names) => {
    const query = new URLSearchParams(route.query);
    query.delete('fact');
    for (const name of names) query.append('fact', name);
    location.hash = href(route.path, query);
  };
  const add = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (fact.trim() && !facts.includes(fact.trim())) setFacts([...facts, fact.trim()]);
    setFact('');
  };
  return html`<div class="bar">
    <${SearchField} label="Find" value=${wanted.find} hint="name, label, version, fact" onValue=${(/** @type {string} */ find) => setQuery(route, { find })} />
    <${Choice} label="Queue" value=${wanted.queue} options=${[['', 'all'], ...queues.map((name) => [name, name])]} onValue=${(/** @type {string} */ queue) => setQuery(route, { queue })} />
    ${labels.length > 0 && html`<${Choice} label="Label" value=${wanted.label} options=${[['', 'all'], ...labels.map((pair) => [pair, pair])]} onValue=${(/** @type {string} */ label) => setQuery(route, { label })} />`}
    ${!asTable && html`<${Choice} label="Group by" value=${by} onValue=${(/** @type {string} */ value) => setQuery(route, { by: value })}
      options=${[['', 'nothing'], ['state', 'state'], ['version', 'version'], ...labelNames.map((name) => [`label:${name}`, `label ${name}`]), ...facts.map((name) => [`fact:${name}`, `fact ${name}`])]} />`}
    ${facts.length < FACTS && html`<form class="add" onSubmit=${add}><label>Fact to show
      <input type="text" list="facts" size="14" maxlength="64" value=${fact} placeholder="zone" autocomplete="off" onInput=${(/** @type {Event} */ event) => setFact(valueOf(event))} /></label>
      <datalist id="facts">${['zone', 'instance_type', 'spot', 'kernel', 'architecture', 'cpus', 'memory_mb', 'ip.primary', 'distribution_version'].map((name) => html`<option value=${name} />`)}</datalist>
      <button type="submit">Add</button></form>`}
    ${facts.map((name) => html`<button type="button" class="quiet" aria-label=${`Leave out fact ${name}`} onClick=${() => setFacts(facts.filter((each) => each !== name))}>${name} ×</button>`)}
  </div>`;
}

/**
 * The age of a heartbeat is that at the time of reading: 500 of them that count would be work each second.
 * @param {{ agents: readonly AgentView[], facts: string[], at: number }} props  `at`: when they were read.
 */
function AgentTable({ agents, facts, at }) {
  /** @type {import('../parts.js').Column<AgentView>[]} */
  const columns = [
    { name: 'Agent', className: 'name', cell: (agent) => agent.name },
    { name: 'State', cell: (agent) => html`<${KindBadge} agent=${agent} />${agent.trouble && html`<br /><span class="about">${agent.trouble}</span>`}` },
    { name: 'In use', className: 'number name', cell: (agent) => `${agent.running} of ${agent.threads}` },
    { name: 'Load', className: 'minor number', cell: (agent) => agent.load ?? '–' },
    { name: 'Memory free, MiB', className: 'minor number', cell: (agent) => agent.free_memory_mb ?? '–' },
    { name: 'Disk free, MiB', className: 'minor number', cell: (agent) => agent.disk?.free_mb ?? '–' },
    { name: 'Queues', cell: (agent) => agent.queues.join(', ') },
    { name: 'Labels', className: 'minor', cell: (agent) => pairs(agent.labels).join(', ') },
    ...facts.map((name) => ({ name, cell: (/** @type {AgentView} */ agent) => String(/** @type {Record<string, unknown>} */ (agent.facts)[name] ?? '–') })),
    { name: 'Version', className: 'minor', cell: (agent) => agent.version },
    { name: 'Isolation', className: 'minor', cell: (agent) => agent.isolation },
    { name: 'Last heartbeat', className: 'name', cell: (agent) => html`<time datetime=${agent.last_seen_at} title=${agent.last_seen_at}>${relative(agent.last_seen_at, at)}</time>` },
  ];
  return html`<${Table} caption="Agents" columns=${columns} rows=${agents} id=${(/** @type {AgentView} */ agent) => agent.name} to=${(/** @type {AgentView} */ agent) => href(['agents', agent.name])} />`;
}

/** What an agent does, and its exact state. @param {{ agent: AgentView }} props */
export function KindBadge({ agent }) {
  const kind = aboutKind(kindOf(agent));
  return html`<span class=${`badge kind-${kind.kind}`} title=${kind.means}><span aria-hidden="true">${kind.sign}</span> ${kind.kind === 'leaving' ? agent.state : kind.name}</span>`;
}
