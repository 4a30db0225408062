/** Members of a large group: the grid, ranges of indices by state, why members failed, and the retry of those that are chosen. */

import { call, path } from '../api.js';
import { confirm, say } from '../dialogs.js';
import { setQuery, valueOf } from '../fields.js';
import { RETRIABLE } from '../job-actions.js';
import { lastLine } from '../log-reader.js';
import { MemberGrid } from '../member-grid.js';
import { describe, indicesOf, numbersOf, rangesOf, sampleOf, statesOf } from '../members.js';
import { Badge, Copy, Failure, Section, Table } from '../parts.js';
import { usePoll } from '../poll.js';
import { patternOf } from '../reasons.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { sweepPages, SweepProgress, useSweep } from '../sweep.js';
import { html, useEffect, useMemo, useRef, useState } from '../view.js';

/** @typedef {import('../types').Member} Member */
/** @typedef {import('../types').GroupPage} GroupPage */
/** @typedef {import('../members.js').Indices} Indices */

/** Failed members whose last line is read, a request each. */
const SAMPLED = 50;
const AT_ONCE = 4;

/** `1 member`, `37 members`. @param {number} count */
const membersOf = (count) => `${count.toLocaleString('en-GB')} ${count === 1 ? 'member' : 'members'}`;

/**
 * @param {object} props
 * @param {GroupPage} props.page  The group's first page.
 * @param {import('../router.js').Route} props.route
 * @param {string} props.state  The state that is shown; '' for all.
 * @param {string} props.indices  The indices that are selected.
 * @param {() => void} props.refresh
 */
export function GroupMap({ page, route, state, indices, refresh }) {
  const { group, entries } = page;
  const byState = /** @type {Record<string, string>} */ (page.indices ?? {});
  const told = JSON.stringify(byState);
  const of = useMemo(() => indicesOf(group), [group.members, group.array?.first, group.array?.step]);
  const states = useMemo(() => statesOf(byState, of), [told, of]);
  const failed = useMemo(() => numbersOf(page.failed_indices ?? '', of) ?? [], [page.failed_indices, of]);
  const chosen = useMemo(() => numbersOf(indices, of) ?? [], [indices, of]);
  const selected = useMemo(() => new Set(chosen), [chosen]);
  const sweep = useSweep(refresh);
  const running = sweep.sweep?.phase === 'running';
  const select = (/** @type {string} */ text) => setQuery(route, { indices: text, state: null });
  const name = (/** @type {number} */ n) => of.first + n * of.step;
  const words = (/** @type {number} */ n) => {
    const member = entries.find((each) => each.index === name(n));
    return `${page.kind === 'array' ? 'Index' : 'Member'} ${name(n)}: ${(states[n] || 'expired').replaceAll('_', ' ')}${member?.agent ? ` on ${member.agent}` : ''}${selected.has(n) ? ', selected' : ''}`;
  };
  const open = async (/** @type {number} */ n) => {
    const known = entries.find((each) => each.index === name(n));
    try {
      const member = known?.id ? known : (await call('GET', path`v1/groups/${group.id}`, { query: { indices: String(name(n)), limit: 1 } })).entries[0];
      if (member?.id) go(href(['jobs', member.id]));
      else say(`Member ${name(n)} has no job: ${member?.reason ?? 'the group is being deleted'}.`);
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), 'bad');
    }
  };
  const toggle = (/** @type {number} */ from, /** @type {number} */ to) => {
    const next = new Set(selected);
    const numbers = Array.from({ length: to - from + 1 }, (_, n) => from + n);
    const out = numbers.every((n) => next.has(n));
    for (const n of numbers) if (out) next.delete(n); else next.add(n);
    select(rangesOf(next, of));
  };
  /** @param {readonly number[] | null} numbers  null for all that failed. */
  const retry = async (numbers) => {
    const fit = (numbers ?? failed).filter((n) => RETRIABLE.includes(states[n] ?? ''));
    const left = (numbers ?? failed).length - fit.length;
    const count = membersOf(fit.length);
    const version = group.type_version;
    const answer = await confirm({
      title: fit.length ? `Retry ${count}?` : 'None of them can be retried', action: fit.length ? `Retry ${count}` : 'Close', reason: fit.length > 0,
      text: `${fit.length ? 'They start again under the same ids and indices, with their attempts counted from zero.' : 'Members that are failed or dead can be.'}${left && fit.length ? ` ${membersOf(left)} of those that are chosen ${left === 1 ? 'is' : 'are'} neither failed nor dead, and ${left === 1 ? 'stays' : 'stay'} as ${left === 1 ? 'it is' : 'they are'}.` : ''}`,
      choice: fit.length && version !== null ? `Stay with version ${version}` : '',
    });
    if (!answer || !fit.length) return;
    const body = { reason: answer.reason, ...(numbers ? { indices: rangesOf(fit, of) } : {}), ...(answer.chosen ? { same_version: true } : {}) };
    await sweep.start({ title: `Retry ${count}`, verb: 'retried', of: fit.length }, (report, signal) => sweepPages(
      (next) => call('POST', path`v1/groups/${group.id}/retry`, { query: { next }, body, signal }), 'retried', report, signal));
  };
  const mayRetry = can('jobs.submit');
  return html`
    <${SweepProgress} of=${sweep} />
    <${Section} title="Members by index" actions=${mayRetry && failed.length > 0 && html`<button type="button" disabled=${running} onClick=${() => retry(null)}>Retry all failed</button>`}>
      <${MemberGrid} states=${states} of=${of} only=${state} selected=${selected} say=${words} onOpen=${open} onSelect=${toggle} />
      <${Selection} text=${indices} of=${of} count=${chosen.length} onSelect=${select}>
        ${mayRetry && chosen.length > 0 && html`<button type="button" class="primary" disabled=${running} onClick=${() => retry(chosen)}>Retry selected</button>`}<//>
      ${failed.length > 0 && html`<p>Failed: <${RangeText} text=${page.failed_indices ?? ''} /> <button type="button" class="quiet" onClick=${() => select(page.failed_indices ?? '')}>Select</button><${Copy} text=${page.failed_indices ?? ''} what="the failed indices" /></p>`}
      <${Ranges} byState=${byState} counts=${page.counts ?? {}} onSelect=${select} />
    <//>
    ${failed.length > 0 && html`<${Failures} id=${group.id} numbers=${failed} of=${of} onSelect=${select} />`}`;
}

/** @param {{ text: string, of: Indices, count: number, onSelect: (text: string) => void, children?: any }} props */
function Selection({ text, of, count, onSelect, children }) {
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  const wrong = numbersOf(typed.replaceAll(' ', ''), of) === null;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!wrong) onSelect(typed.replaceAll(' ', ''));
  };
  return html`<form class="bar" onSubmit=${submit}>
    <label>Indices<input type="text" value=${typed} placeholder="3,5-9" autocomplete="off" spellcheck=${false} onInput=${(/** @type {Event} */ event) => setTyped(valueOf(event))}
      ...${wrong ? { 'aria-invalid': 'true', 'aria-describedby': 'p-indices' } : {}} /></label>
    <button type="submit" disabled=${wrong}>Select</button>
    ${children}
    ${text && html`<button type="button" class="quiet" onClick=${() => onSelect('')}>Select none</button>`}
    <span class="about" role="status">${count > 0 ? `${count} selected` : ''}</span>
    ${wrong && html`<p class="problem" id="p-indices">must be indices and ranges of them, such as 3,5-9; they are ${describe(of)}</p>`}
  </form>`;
}

/** Which members are in which state, as text. @param {{ byState: Record<string, string>, counts: Record<string, number>, onSelect: (text: string) => void }} props */
function Ranges({ byState, counts, onSelect }) {
  const rows = Object.entries(byState);
  return html`<details><summary>Indices by state</summary>
    <${Table} caption="Indices by state" rows=${rows} id=${(/** @type {[string, string]} */ [state]) => state} columns=${[
      { name: 'State', cell: (/** @type {[string, string]} */ [state]) => html`<${Badge} state=${state} />` },
      { name: 'Members', className: 'number', cell: (/** @type {[string, string]} */ [state]) => counts[state] ?? 0 },
      { name: 'Indices', className: 'wide', cell: (/** @type {[string, string]} */ [, text]) => html`<${RangeText} text=${text} />` },
      { name: 'Actions', cell: (/** @type {[string, string]} */ [state, text]) => html`<span class="actions tight"><button type="button" aria-label=${`Select all that are ${state}`} onClick=${() => onSelect(text)}>Select</button><${Copy} text=${text} what=${`the indices of ${state} members`} /></span>` },
    ]} /></details>`;
}

/** Ranges as text; of many, the first. @param {{ text: string }} props */
function RangeText({ text }) {
  const parts = text.split(',');
  return html`<code>${parts.slice(0, 60).join(', ')}</code>${parts.length > 60 && html` <span class="about">and ${parts.length - 60} more ranges</span>`}`;
}

/** A failed member, and what it said last. @typedef {{ member: Member, line: string }} Failed */

/** Failed members by what they said last on standard error. @param {{ id: string, numbers: readonly number[], of: Indices, onSelect: (text: string) => void }} props */
function Failures({ id, numbers, of, onSelect }) {
  const lines = useRef(/** @type {Map<string, string>} */ (new Map()));
  const sample = rangesOf(sampleOf(numbers, SAMPLED), of);
  const { data, error, refresh } = usePoll((signal) => readFailures(id, sample, lines.current, signal), 0, [id, sample]);
  const last = useRef(data);
  useEffect(() => {
    if (data) last.current = data;
  }, [data]);
  const failures = data ?? last.current;
  const groups = useMemo(() => groupFailures(failures ?? []), [failures]);
  /** @typedef {ReturnType<typeof groupFailures>[number]} Group */
  const rangesIn = (/** @type {Group} */ group) => rangesOf(group.failures.map(({ member }) => (member.index - of.first) / of.step), of);
  return html`<${Section} title="Why members failed">
    ${!failures && (error ? html`<${Failure} error=${error} retry=${refresh} />` : html`<p class="about" role="status">Reading…</p>`)}
    ${failures && html`<${Table} caption="Failed members by their last line" rows=${groups} id=${(/** @type {Group} */ group) => group.pattern} columns=${[
      { name: 'Last line of standard error', className: 'wide', cell: (/** @type {Group} */ { failures: [first] }) => html`${first?.line && html`<samp>${first.line}</samp><br />`}<span class="about">${first?.member.reason}</span>` },
      { name: 'Members', className: 'number', cell: (/** @type {Group} */ group) => html`<strong>${group.failures.length}</strong>` },
      { name: 'Indices', cell: (/** @type {Group} */ group) => html`<${RangeText} text=${rangesIn(group)} />` },
      { name: 'Actions', cell: (/** @type {Group} */ group) => html`<button type="button" aria-label=${`Select ${rangesIn(group)}`} onClick=${() => onSelect(rangesIn(group))}>Select</button>` },
    ]} />
    ${numbers.length > SAMPLED && html`<p class="about">${SAMPLED} of the ${numbers.length} that failed are read, spread over their indices.</p>`}`}
  <//>`;
}

/**
 * @param {string} id
 * @param {string} indices
 * @param {Map<string, string>} known  Lines that were read before, by job and end.
 * @param {AbortSignal} signal
 * @returns {Promise<Failed[]>}
 */
async function readFailures(id, indices, known, signal) {
  /** @type {GroupPage} */
  const { entries } = await call('GET', path`v1/groups/${id}`, { query: { indices, limit: SAMPLED }, signal });
  const left = [...entries];
  const worker = async () => {
    for (let member = left.shift(); member; member = left.shift()) {
      const key = `${member.id} ${member.ended_at}`;
      if (member.id && member.attempt && !known.has(key)) known.set(key, await lastLine(member.id, signal));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return entries.map((member) => ({ member, line: known.get(`${member.id} ${member.ended_at}`) ?? '' }));
}

/** @param {readonly Failed[]} failures */
export function groupFailures(failures) {
  /** @type {Map<string, Failed[]>} */
  const groups = new Map();
  for (const failure of failures) {
    const pattern = patternOf(failure.line || failure.member.reason);
    groups.set(pattern, [...(groups.get(pattern) ?? []), failure]);
  }
  return [...groups].map(([pattern, found]) => ({ pattern, failures: found })).sort((a, b) => b.failures.length - a.failures.length);
}
