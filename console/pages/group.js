/** One group: the job of each agent, with its state, its end, and the way to its output. */

import { call, path } from '../api.js';
import { ENDED, UNSUCCESSFUL, hasEnded, nameOf } from '../job-actions.js';
import { Badge, Copy, Empty, Facts, Failure, Head, Id, Loading, Section, Span, Table, Time, dash } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { html, useRef } from '../view.js';
import { Actions } from './job-buttons.js';

/** @typedef {import('../types').Member} Member */
/** @typedef {import('../types').GroupPage} GroupPage */

const PAGE = 100;

/** Members that are shown; groups have at most some thousands. */
const MOST = 2000;

/** @param {Member} member */
const ended = ({ state }) => state !== null && ENDED.includes(state);

/** @param {Member} member */
const failed = (member) => UNSUCCESSFUL.includes(member.state ?? '');

/** Which members are shown: name in the address, title, and which. @type {[string, string, (member: Member) => boolean][]} */
const VIEWS = [
  ['', 'All', () => true],
  ['failed', 'Unsuccessful', failed],
  ['open', 'Not ended', (member) => member.state !== null && !ended(member)],
  ['completed', 'Completed', (member) => member.state === 'completed'],
  ['skipped', 'Skipped', (member) => member.state === 'skipped'],
];

/** @type {import('../parts.js').Column<Member>[]} */
const COLUMNS = [
  { name: 'Agent', cell: (member) => (member.id ? html`<a href=${href(['jobs', member.id])}>${member.agent}</a>` : member.agent) },
  { name: 'State', cell: (member) => (member.state ? html`<${Badge} state=${member.state} />` : html`<span class="none">expired</span>`) },
  { name: 'Exit code', className: 'number', cell: (member) => member.exit_code ?? dash() },
  { name: 'Reason', className: 'wide', cell: (member) => html`<${Sentence} text=${member.reason} />` },
  { name: 'Result', className: 'minor', cell: (member) => (member.result === null ? dash() : html`<code>${JSON.stringify(member.result)}</code>`) },
  { name: 'Attempt', className: 'number minor', cell: (member) => member.attempt || dash() },
  { name: 'Started', className: 'number minor', cell: (member) => html`<${Time} at=${member.started_at} />` },
  { name: 'Took', className: 'number', cell: (member) => html`<${Span} from=${member.started_at} to=${member.ended_at} />` },
];

/**
 * @param {string} id
 * @param {AbortSignal} signal
 */
async function readGroup(id, signal) {
  /** @type {Member[]} */
  const members = [];
  /** @type {string | null} */
  let next = null;
  let changed = false;
  for (;;) {
    /** @type {GroupPage} */
    const page = await call('GET', path`v1/groups/${id}`, { query: { limit: PAGE, next }, signal });
    members.push(...page.entries);
    changed ||= page.changed;
    next = page.next;
    if (!next || members.length >= MOST) return { group: page.group, members, changed, more: next !== null };
  }
}

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const id = route.path[1] ?? '';
  const every = useRef(3000);
  const { data, error, refresh } = usePoll((signal) => readGroup(id, signal), every.current, [id]);
  if (!data) {
    return html`<${Head} title=${`Group ${id}`} />${error ? html`<${Failure} error=${error} retry=${refresh} />` : html`<${Loading} />`}`;
  }
  const { group, members, changed, more } = data;
  every.current = hasEnded(group) ? 15_000 : Math.max(3000, members.length * 10);
  const name = route.query.get('members') ?? '';
  const shows = VIEWS.find(([each]) => each === name)?.[2] ?? (() => true);
  const shown = members.filter(shows);
  const done = members.filter(ended).length;
  return html`
    <${Head} title=${nameOf(group, 90)} about=${html`<${Badge} state=${group.state} /> <${Id} text=${group.id} /><${Copy} text=${group.id} what="the id" />`}>
      <${Actions} job=${group} refresh=${refresh} />
    <//>
    <section class=${`panel why ${['failed', 'partial_failure'].includes(group.state) ? 'bad' : ''}`} aria-label="How far it is"><p><${Sentence} text=${group.reason} /></p>
      <p class="hidden" role="status">The group is ${group.state.replaceAll('_', ' ')}.</p>
      ${!hasEnded(group) && members.length > 0 && html`<p><progress max=${members.length} value=${done} aria-label="Members that have ended"></progress> ${done} of ${group.members ?? members.length} have ended</p>`}</section>
    <${Section} title="Group"><${Facts} entries=${[
      ['Target', html`<code>${group.target}</code>`],
      ['Members', group.members ?? 'not chosen yet'],
      ['At once', group.max_concurrency ?? 'all'],
      ['Failures before it stops', group.max_failures],
      ['Changed something', changed ? 'yes' : null],
      ['Created', html`<${Time} at=${group.created_at} />`],
      ['Took', html`<${Span} from=${group.created_at} to=${group.ended_at} />`],
      ['Specification', html`<a href=${href(['jobs', group.id])}>As a job</a>`],
    ]} /><//>
    <div class="tabs" role="navigation" aria-label="Members by state">${VIEWS.map(([each, title, fits]) => html`<a key=${each} href=${href(['groups', id], { members: each })}
      aria-current=${name === each ? 'page' : undefined}>${title} <span class="count">${members.filter(fits).length}</span></a>`)}</div>
    <${Section} title=${`${shown.length} ${shown.length === 1 ? 'member' : 'members'}`}>
      ${!shown.length && html`<${Empty}><p>${members.length ? 'No member is in this state.' : 'Its agents are chosen when it starts.'}</p><//>`}
      ${shown.length > 0 && html`<${Table} caption="Members" columns=${COLUMNS} rows=${shown} id=${(/** @type {Member} */ member) => member.agent} />`}
      ${more && html`<p class="about">These are the first ${MOST}.</p>`}
    <//>`;
}
