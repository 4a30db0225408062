/** One group: how many of its members are in each state, each with its end, and the way to its output. */

import { call, path } from '../api.js';
import { setQuery } from '../fields.js';
import { ENDED, hasEnded, nameOf } from '../job-actions.js';
import { PAGE } from '../lists.js';
import { Badge, Copy, dash, Empty, Facts, Failure, Head, Id, Loading, Reading, Section, Span, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { html, useEffect, useRef, useState } from '../view.js';
import { Actions } from './job-buttons.js';

/** @typedef {import('../types').Member} Member */
/** @typedef {import('../types').GroupPage} GroupPage */

/** Members in the table, and the longest text of indices that the API takes in a query. */
const MOST = 2000;
const MOST_TEXT = 4096;

/** @param {Member} member @param {unknown} text */
const link = (member, text) => (member.id ? html`<a href=${href(['jobs', member.id])}>${text}</a>` : text);

/** @type {import('../parts.js').Column<Member>[]} */
const REST = [
  { name: 'State', cell: (member) => (member.state ? html`<${Badge} state=${member.state} />` : html`<span class="none">expired</span>`) },
  { name: 'Exit code', className: 'number', cell: (member) => member.exit_code ?? dash() },
  { name: 'Reason', className: 'wide', cell: (member) => html`<${Sentence} text=${member.reason} />` },
  { name: 'Result', className: 'minor', cell: (member) => (member.result === null ? dash() : html`<code>${JSON.stringify(member.result)}</code>`) },
  { name: 'Attempt', className: 'number minor', cell: (member) => member.attempt || dash() },
  { name: 'Started', className: 'number minor', cell: (member) => html`<${Time} at=${member.started_at} />` },
  { name: 'Took', className: 'number', cell: (member) => html`<${Span} from=${member.started_at} to=${member.ended_at} />` },
];

/** Of an array each member has an index, of a broadcast an agent. @type {Record<string, import('../parts.js').Column<Member>[]>} */
const COLUMNS = {
  array: [{ name: 'Index', cell: (member) => link(member, member.index) }, ...REST, { name: 'Agent', className: 'minor', cell: (member) => member.agent ?? dash() }],
  broadcast: [{ name: 'Agent', cell: (member) => link(member, member.agent) }, ...REST],
};

/**
 * The group with some of its members; its first page counts all of them.
 * @param {string} id
 * @param {{ state: string, indices: string }} which
 * @param {number} most
 * @param {AbortSignal} signal
 */
async function readGroup(id, { state, indices }, most, signal) {
  const query = { state, indices: indices.length > MOST_TEXT ? '' : indices, limit: PAGE };
  /** @type {GroupPage} */
  const first = await call('GET', path`v1/groups/${id}`, { query: { ...query, counts: true }, signal });
  let page = first;
  const members = [...first.entries];
  while (page.next && members.length < most) {
    page = await call('GET', path`v1/groups/${id}`, { query: { ...query, next: page.next }, signal });
    members.push(...page.entries);
  }
  return { id, first, members, more: page.next !== null };
}

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const id = route.path[1] ?? '';
  const [state, indices] = [route.query.get('state') ?? '', route.query.get('indices') ?? ''];
  const most = Math.min(MOST, Number(route.query.get('most')) || PAGE);
  const every = useRef(3000);
  const answer = usePoll((signal) => readGroup(id, { state, indices }, most, signal), every.current, [id, state, indices, most]);
  const { error, refresh } = answer;
  const last = useRef(answer.data);
  if (answer.data) last.current = answer.data; // shown until the answer for another filter comes
  const data = last.current?.id === id ? last.current : null;
  const [map, setMap] = useState(/** @type {import('./group-map.js') | null} */ (null));
  const [lost, setLost] = useState(/** @type {Error | null} */ (null));
  const large = data !== null && (data.first.kind === 'array' || (data.first.group.members ?? 0) > PAGE) && Boolean(data.first.group.members);
  useEffect(() => {
    if (large) import('./group-map.js').then(setMap, setLost);
  }, [large]);
  if (!data) {
    return html`<${Head} title=${`Group ${id}`} /><${Reading} error=${error} retry=${refresh} />`;
  }
  const { first, members, more } = data;
  const { group, kind } = first;
  const counts = Object.entries(first.counts ?? {});
  const all = group.members ?? 0;
  const done = counts.reduce((sum, [each, count]) => sum + (ENDED.includes(each) ? count : 0), 0);
  // Each reading reads the rows of members that have begun and not ended.
  const open = all - done - (first.counts?.waiting ?? 0);
  every.current = hasEnded(group) ? 15_000 : Math.max(3000, (open + members.length) * 3);
  return html`
    <${Head} title=${nameOf(group, 90)} about=${html`<${Badge} state=${group.state} /> <${Id} text=${group.id} /><${Copy} text=${group.id} what="the id" />`}>
      <${Actions} job=${group} failed=${Boolean(first.failed_indices)} refresh=${refresh} />
    <//>
    <section class=${`panel why ${['failed', 'partial_failure'].includes(group.state) ? 'bad' : ''}`} aria-label="How far it is"><p><${Sentence} text=${group.reason} /></p>
      <p class="hidden" role="status">The group is ${group.state.replaceAll('_', ' ')}.</p>
      ${!hasEnded(group) && all > 0 && html`<p><progress max=${all} value=${done} aria-label="Members that have ended"></progress> ${done} of ${all} have ended</p>`}</section>
    <${Section} title="Group"><${Facts} entries=${[
      ['Target', group.target && html`<code>${group.target}</code>`],
      ['Members', group.members ?? 'not chosen yet'],
      ['At once', group.max_concurrency ?? 'all'],
      ['Failures before it stops', group.max_failures],
      ['Failures that it tolerates', group.tolerate],
      ['Changed something', first.changed ? 'yes' : null],
      ['Created', html`<${Time} at=${group.created_at} />`],
      ['Took', html`<${Span} from=${group.created_at} to=${group.ended_at} />`],
      ['Specification', html`<a href=${href(['jobs', group.id])}>As a job</a>`],
    ]} /><//>
    <div class="tabs" role="navigation" aria-label="Members by state">${[['', all], ...counts].map(([each = '', count]) => html`<a key=${each} href=${href(['groups', id], { state: String(each) })}
      aria-current=${state === each && !indices ? 'page' : undefined}>${each ? html`<${Badge} state=${each} />` : 'All'} <span class="count">${count}</span></a>`)}</div>
    ${large && (map ? html`<${map.GroupMap} key=${id} page=${first} route=${route} state=${state} indices=${indices} refresh=${refresh} />` : lost ? html`<${Failure} error=${lost} />` : html`<${Loading} />`)}
    <${Section} title=${`${members.length}${more ? ' or more' : ''} ${members.length === 1 ? 'member' : 'members'}${indices ? ' selected' : ''}`}>
      ${!answer.data && error && html`<${Failure} error=${error} retry=${refresh} />`}
      ${!members.length && html`<${Empty}><p>${all ? 'No member is in this state.' : kind === 'array' ? 'Its members are made when it starts.' : 'Its agents are chosen when it starts.'}</p><//>`}
      ${members.length > 0 && html`<${Table} caption="Members" columns=${COLUMNS[kind]} rows=${members} id=${(/** @type {Member} */ member) => String(member.index)} />`}
      ${more && (most < MOST ? html`<p class="pager"><button type="button" onClick=${() => setQuery(route, { most: String(Math.min(MOST, most * 4)) })}>Show more</button></p>` : html`<p class="about">These are the first ${MOST}.</p>`)}
    <//>`;
}
