/** The list of jobs: filters in the address, rows with their reasons, and actions on many of them. */

import { call } from '../api.js';
import { Choice, setQuery, valueOf } from '../fields.js';
import { chipsOf, filtersOf, sought, SPANS } from '../job-filters.js';
import { nameOf, STATES, whyOf } from '../job-actions.js';
import { PAGE, useList } from '../lists.js';
import { Badge, Empty, Failure, Head, Loading, Section, SlimBadge, Span, Table, Time, dash } from '../parts.js';
import { usePoll } from '../poll.js';
import { go, href } from '../router.js';
import { Sentence } from '../sentence.js';
import { can, canAny, summary } from '../session.js';
import { duration } from '../time.js';
import { rows, totals } from '../timeline.js';
import { html, useEffect, useMemo, useRef, useState, useStore } from '../view.js';
import { Many } from './jobs-many.js';

/** @typedef {import('../types').Job} Job */
/** @typedef {import('../router.js').Route} Route */

/** Jobs of a page, as the reader may choose. */
const LONG = 500;

/** States that have a button also if no job is in them. */
const USUAL = ['active', 'pending', 'failed', 'dead', 'completed'];

/** How long its attempts have run. @param {{ job: Job }} props */
function Ran({ job }) {
  const last = job.timeline.at(-1);
  const before = totals(rows(job.timeline, 0)).run;
  if (job.state === 'active' && last && !before) return html`<${Span} from=${last.at} />`;
  return before ? html`<span>${duration(before)}</span>` : dash();
}

/** @type {import('../parts.js').Column<Job>[]} */
const COLUMNS = [
  { name: 'Job', className: 'short', cell: (job) => html`${nameOf(job, 48)}<${SlimBadge} state=${job.state} />` },
  { name: 'State', className: 'minor', cell: (job) => html`<${Badge} state=${job.state} />` },
  { name: 'Queue', className: 'minor', cell: (job) => html`${job.queue}${job.priority !== 'default' && html` <span class="about">${job.priority}</span>`}` },
  { name: 'Agent', className: 'minor agent', cell: (job) => (job.agent ?? job.assigned ? html`<span class="ellipsis" title=${job.agent ?? job.assigned}>${job.agent ?? job.assigned}</span>` : dash()) },
  { name: 'Why', className: 'wide', cell: (job) => html`<span class="clamp"><${Sentence} text=${whyOf(job)} /></span>` },
  { name: 'Created', className: 'number', cell: (job) => html`<${Time} at=${job.created_at} />` },
  { name: 'Ran', className: 'number minor', cell: (job) => html`<${Ran} job=${job} />` },
];

/** @param {{ route: Route }} props */
export default function Page({ route }) {
  const { query } = route;
  const text = query.toString();
  const size = query.get('page') === String(LONG) ? LONG : PAGE;
  const filterText = new URLSearchParams([...query].filter(([name]) => name !== 'page' && name !== 'find')).toString();
  const filters = useMemo(() => filtersOf(new URLSearchParams(filterText), Date.now()), [filterText]);
  const [pages, setPages] = useState(1);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  useEffect(() => {
    setPages(1);
    setSelected(new Set());
  }, [text]);
  const list = useList('v1/jobs', filters, { most: size * pages });
  // While more is read, what is there stays.
  const last = useRef({ filters, data: list.data });
  if (list.data || last.current.filters !== filters) last.current = { filters, data: list.data };
  const data = list.data ?? last.current.data;
  const jobs = /** @type {Job[]} */ (data?.entries ?? []);
  return html`
    <${Head} title="Jobs">${can('jobs.submit') && html`<a class="button primary" href=${href(['submit'])}>New job</a>`}<//>
    <${Filters} route=${route} />
    ${!data && list.error && html`<${Failure} error=${list.error} retry=${list.refresh} />`}
    <${Section} title=${data ? `${jobs.length}${data.next ? ' newest' : ''} ${jobs.length === 1 ? 'job' : 'jobs'}` : 'Jobs'}
      actions=${html`<${Many} query=${query} filters=${filters} jobs=${jobs} selected=${selected} setSelected=${setSelected} refresh=${list.refresh} />`}>
      ${!data && !list.error && html`<${Loading} />`}
      ${data && !jobs.length && html`<${Nothing} filtered=${filterText !== ''} />`}
      ${jobs.length > 0 && html`<${Table} caption="Jobs" columns=${COLUMNS} rows=${jobs} id=${(/** @type {Job} */ job) => job.id}
        to=${(/** @type {Job} */ job) => href(['jobs', job.id])} ...${canAny('jobs.cancel', 'jobs.submit') ? { selected, onSelect: setSelected } : {}} />`}
      ${data && html`<p class="bar more">
        ${data.next && html`<button type="button" onClick=${() => setPages(pages + 1)} disabled=${!list.data}>${list.data ? 'Load more' : 'Loading…'}</button>`}
        ${(jobs.length >= PAGE || size === LONG) && html`<${Choice} label="Jobs a page" value=${String(size)} options=${[['100', '100'], ['500', '500']]}
          onValue=${(/** @type {string} */ value) => setQuery(route, { page: value === '100' ? null : value })} />`}</p>`}
    <//>`;
}

/** @param {{ filtered: boolean }} props */
function Nothing({ filtered }) {
  if (filtered) return html`<${Empty}><p>No job matches these filters.</p><p><a href=${href(['jobs'])}>Show all jobs</a></p><//>`;
  return html`<${Empty}><p>There are no jobs yet.</p>
    ${can('jobs.submit') && html`<p>Submit one with <code>joblane run -- echo hello</code> or <a href=${href(['submit'])}>here</a>.</p>`}<//>`;
}

/** @param {{ route: Route }} props */
function Filters({ route }) {
  const { query } = route;
  const counts = useStore(summary)?.jobs?.by_state ?? {};
  const [all, setAll] = useState(false);
  const states = query.getAll('state');
  const shown = STATES.filter((state) => all || counts[state] || states.includes(state) || USUAL.includes(state));
  const names = useNames();
  /** @param {string} state */
  const toggle = (state) => {
    const next = new URLSearchParams([...query].filter(([name, value]) => name !== 'state' || value !== state));
    if (!states.includes(state)) next.append('state', state);
    go(href(['jobs'], next), { replace: true });
  };
  /** @param {string[]} of @param {string} name @param {string} any @returns {[string, string][]} */
  const options = (of, name, any) => {
    const value = query.get(name);
    return [['', any], ...[...new Set([...(value ? [value] : []), ...of])].map((each) => /** @type {[string, string]} */ ([each, each]))];
  };
  const since = query.get('since') ?? '';
  /** @type {(readonly [string, string])[]} */
  const spans = [['', 'any time'], ...SPANS, ...(since && !SPANS.some(([each]) => each === since) ? [/** @type {[string, string]} */ ([since, since])] : [])];
  const chips = chipsOf(query);
  return html`<div class="filters">
    <div class="bar">
      <${Find} route=${route} />
      <${Choice} label="Type" value=${query.get('type') ?? ''} options=${options(names?.types ?? [], 'type', 'any')} onValue=${(/** @type {string} */ type) => setQuery(route, { type })} />
      <${Choice} label="Queue" value=${query.get('queue') ?? ''} options=${options(names?.queues ?? [], 'queue', 'any')} onValue=${(/** @type {string} */ queue) => setQuery(route, { queue })} />
      <${Choice} label="Submitted" value=${since} options=${spans} onValue=${(/** @type {string} */ value) => setQuery(route, { since: value })} />
      <label class="line"><input type="checkbox" checked=${query.get('hidden') === 'true'} onChange=${(/** @type {Event} */ event) =>
        setQuery(route, { hidden: /** @type {HTMLInputElement} */ (event.target).checked ? 'true' : null })} /> Hidden ones too</label>
    </div>
    <div class="chips" role="group" aria-label="States">
      ${shown.map((state) => html`<button type="button" key=${state} aria-pressed=${states.includes(state)} onClick=${() => toggle(state)}>${state.replaceAll('_', ' ')}${
        counts[state] ? html` <span class="count">${counts[state]}</span>` : ''}</button>`)}
      <button type="button" class="quiet" onClick=${() => setAll(!all)}>${all ? 'Fewer states' : 'All states'}</button>
    </div>
    ${chips.length > 0 && html`<div class="chips" role="group" aria-label="Filters">
      ${chips.map((chip) => html`<button type="button" class="chosen" key=${chip.text} aria-label=${`Remove the filter ${chip.text}`} onClick=${() => go(href(['jobs'], chip.without), { replace: true })}>${chip.text} <span aria-hidden="true">×</span></button>`)}
      <a href=${href(['jobs'])}>Clear</a></div>`}
  </div>`;
}

/** The search field: an id is opened, `key=value` is a label, anything else a name. @param {{ route: Route }} props */
function Find({ route }) {
  const [text, setText] = useState('');
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const asked = route.query.get('find');
  useEffect(() => {
    if (!asked) return;
    field.current?.focus();
    setQuery(route, { find: null });
  }, [asked]);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const found = sought(text);
    if (!found) return;
    setText('');
    if ('id' in found) go(href(['jobs', found.id]));
    else if ('name' in found) setQuery(route, { name: found.name });
    else {
      const query = new URLSearchParams(route.query);
      if (!query.getAll('label').includes(found.label)) query.append('label', found.label);
      go(href(['jobs'], query), { replace: true });
    }
  };
  return html`<form role="search" onSubmit=${submit}><label>Find
    <input type="search" ref=${field} value=${text} placeholder="id, name, or key=value" onInput=${(/** @type {Event} */ event) => setText(valueOf(event))} /></label></form>`;
}

/** Names of the queues and job types that the reader may filter by. */
function useNames() {
  const { data } = usePoll(async (signal) => {
    /** @type {[import('../types').QueuePage, import('../types').TypePage]} */
    const [queues, types] = await Promise.all([call('GET', 'v1/queues', { signal }), call('GET', 'v1/types', { signal })]);
    return { queues: queues.entries.map((queue) => queue.name), types: types.entries.map((type) => type.type) };
  }, 0, []);
  return data;
}
