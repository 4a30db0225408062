/** Groups: arrays, and jobs that run on several agents at once, with how far each of them is. */

import { Badge, Empty, Failure, Head, Loading, Section, SlimBadge, Span, Table, Time } from '../parts.js';
import { nameOf } from '../job-actions.js';
import { useList } from '../lists.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { can } from '../session.js';
import { html } from '../view.js';

/** @typedef {import('../types').Job} Job */

/** What the list shows: its name in the address, its title, and the states. @type {[string, string, string[]][]} */
const VIEWS = [
  ['', 'All', []],
  ['processing', 'Processing', ['processing']],
  ['failed', 'Failed', ['failed', 'partial_failure']],
];

/** @type {import('../parts.js').Column<Job>[]} */
const COLUMNS = [
  { name: 'Group', className: 'short', cell: (job) => html`${nameOf(job, 60)}<${SlimBadge} state=${job.state} />` },
  { name: 'State', className: 'minor', cell: (job) => html`<${Badge} state=${job.state} />` },
  { name: 'Runs on', className: 'minor', cell: (job) => (job.array ? 'any agents, by index' : html`<code>${job.target}</code>`) },
  { name: 'Members', className: 'number', cell: (job) => job.members ?? '–' },
  { name: 'Why', className: 'wide', cell: (job) => html`<span class="clamp"><${Sentence} text=${job.reason} /></span>` },
  { name: 'Created', className: 'number minor', cell: (job) => html`<${Time} at=${job.created_at} />` },
  { name: 'Took', className: 'number minor', cell: (job) => html`<${Span} from=${job.created_at} to=${job.ended_at} />` },
];

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const view = route.query.get('state') ?? '';
  const states = VIEWS.find(([name]) => name === view)?.[2] ?? [];
  const { data, error, refresh } = useList('v1/jobs', { groups: true, state: states });
  const groups = /** @type {Job[]} */ (data?.entries ?? []);
  return html`
    <${Head} title="Groups" about="A job with an array, or with a target of several agents, is a group: a job for each index, or for each agent.">
      ${can('jobs.submit') && html`<a class="button primary" href=${href(['submit'])}>New job</a>`}<//>
    <div class="tabs" role="navigation" aria-label="Groups by state">${VIEWS.map(([name, title]) => html`<a key=${name} href=${href(['groups'], { state: name })}
      aria-current=${view === name ? 'page' : undefined}>${title}</a>`)}</div>
    ${!data && error && html`<${Failure} error=${error} retry=${refresh} />`}
    <${Section} title=${data ? `${groups.length}${data.next ? ' newest' : ''} ${groups.length === 1 ? 'group' : 'groups'}` : 'Groups'}>
      ${!data && !error && html`<${Loading} />`}
      ${data && !groups.length && html`<${Empty}><p>${view ? 'No group is in this state.' : 'There are no groups yet.'}</p>
        ${can('jobs.submit') && html`<p>Run a command a hundred times with <code>joblane submit --array 100 -- ./task</code>, or on every agent with <code>joblane submit --target _all -- uptime</code>.</p>`}<//>`}
      ${groups.length > 0 && html`<${Table} caption="Groups" columns=${COLUMNS} rows=${groups}
        id=${(/** @type {Job} */ job) => job.id} to=${(/** @type {Job} */ job) => href(['groups', job.id])} />`}
    <//>`;
}
