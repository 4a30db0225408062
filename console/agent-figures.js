/** What agents do, and which of them a reader asks for. */

/** @typedef {import('./types').AgentView} AgentView */
/** @typedef {'trouble' | 'gone' | 'leaving' | 'busy' | 'idle'} Kind */

/** Each kind with its sign and what it means, what needs a look first. @type {readonly { kind: Kind, name: string, sign: string, means: string }[]} */
export const KINDS = [
  { kind: 'trouble', name: 'in trouble', sign: '!', means: 'alive, but takes no jobs, not all of them, or cannot report' },
  { kind: 'gone', name: 'gone', sign: '✕', means: 'no heartbeat for the time of its lease' },
  { kind: 'leaving', name: 'cordoned or draining', sign: '↘', means: 'takes no new jobs' },
  { kind: 'busy', name: 'busy', sign: '●', means: 'runs jobs' },
  { kind: 'idle', name: 'idle', sign: '○', means: 'all slots are free' },
];

/** @param {AgentView} agent @returns {Kind} */
export function kindOf(agent) {
  if (!agent.alive || agent.state === 'gone') return 'gone';
  if (agent.trouble !== null) return 'trouble';
  if (agent.state !== 'ready') return 'leaving';
  return agent.running > 0 ? 'busy' : 'idle';
}

/** @param {Kind} kind */
export function aboutKind(kind) {
  return /** @type {typeof KINDS[number]} */ (KINDS.find((each) => each.kind === kind));
}

/** How many agents are of each kind. @param {readonly AgentView[]} agents */
export function countKinds(agents) {
  /** @type {Record<Kind, number>} */
  const counts = { trouble: 0, gone: 0, leaving: 0, busy: 0, idle: 0 };
  for (const agent of agents) counts[kindOf(agent)] += 1;
  return counts;
}

/**
 * Side of an agent's cell relative to one of a single thread: its area grows with the logarithm of the threads.
 * @param {number} threads
 */
export function sizeOf(threads) {
  return Math.sqrt(1 + Math.min(8, Math.log2(Math.max(1, threads))) / 2);
}

/**
 * @typedef {object} Wanted
 * @property {string} find  Each of its words is in the name, a label, the version, the trouble or a fact; empty for all.
 * @property {string} queue
 * @property {string} label  As `group=web.dev`.
 * @property {string} kind
 */

/** @param {AgentView} agent @param {Wanted} wanted */
export function isWanted(agent, { find, queue, label, kind }) {
  if (queue && !agent.queues.includes(queue)) return false;
  if (kind && kindOf(agent) !== kind) return false;
  if (label && !pairs(agent.labels).includes(label)) return false;
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const text = [agent.name, agent.version, agent.trouble ?? '', agent.state, aboutKind(kindOf(agent)).name, ...agent.queues, ...pairs(agent.labels), ...pairs(agent.facts)].join('\n').toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Labels or facts as `name=value`. @param {Record<string, unknown>} values */
export function pairs(values) {
  return Object.entries(values).map(([name, value]) => `${name}=${value}`);
}

/**
 * Agents by a state, a label or a fact: the largest group first, of states what needs a look.
 * @param {readonly AgentView[]} agents
 * @param {string} by  `state`, `version`, `label:NAME`, `fact:NAME`; anything else makes one group.
 * @returns {{ name: string, agents: AgentView[] }[]}
 */
export function groupsOf(agents, by) {
  /** @type {Map<string, AgentView[]>} */
  const groups = new Map();
  for (const agent of agents) {
    const name = groupOf(agent, by);
    groups.set(name, [...(groups.get(name) ?? []), agent]);
  }
  const order = KINDS.map((each) => each.kind);
  const sorted = [...groups].map(([name, members]) => ({
    name,
    agents: members.sort((a, b) => order.indexOf(kindOf(a)) - order.indexOf(kindOf(b)) || (a.name < b.name ? -1 : 1)),
  }));
  if (by === 'state') return KINDS.flatMap((each) => sorted.filter((group) => group.name === each.name));
  return sorted.sort((a, b) => b.agents.length - a.agents.length || (a.name < b.name ? -1 : 1));
}

/** @param {AgentView} agent @param {string} by */
function groupOf(agent, by) {
  if (by === 'version') return agent.version;
  if (by === 'state') return aboutKind(kindOf(agent)).name;
  const [from, name = ''] = by.split(/:(.*)/);
  /** @type {Record<string, unknown>} */
  const values = from === 'label' ? agent.labels : from === 'fact' ? agent.facts : {};
  return from === 'label' || from === 'fact' ? String(values[name] ?? `no ${name}`) : '';
}
