/** Schedules: what starts by itself, when it is due, and what became of it. */

import { call, path } from '../api.js';
import { confirm, perform } from '../dialogs.js';
import { useList } from '../lists.js';
import { Badge, dash, Empty, Facts, Head, Id, Pager, Reading, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { daysOf, localTime, whenOf } from '../schedule-times.js';
import { Sentence } from '../sentence.js';
import { can } from '../session.js';
import { duration } from '../time.js';
import { html } from '../view.js';

/** @typedef {import('../types').ScheduleSummary} Summary */
/** @typedef {import('../types').ScheduleView} View */
/** @typedef {import('../types').ResultView} Result */
/** @typedef {import('../router.js').Route} Route */

/** Due times that the calendar shows. */
const AHEAD = 10;

/** What happens while what was started before has not ended. @type {Record<View['overlap'], string>} */
const OVERLAP = {
  skip: 'the due time is skipped',
  queue: 'one waits until it has ended',
  replace: 'it is cancelled first',
  allow: 'both run',
};

/** @param {{ route: Route }} props */
export default function Page({ route }) {
  const name = route.path[1];
  return name ? html`<${One} key=${name} name=${name} route=${route} />` : html`<${List} route=${route} />`;
}

/** @param {{ route: Route }} props */
function List({ route }) {
  const { data, error, refresh } = useList('v1/schedules', { next: route.query.get('next') }, { most: 50, everyMs: 10_000 });
  const rows = /** @type {Summary[]} */ (data?.entries ?? []);
  return html`
    <${Head} title="Schedules" about="What starts by itself at set times: a job, an array, a job for each agent." />
    ${!data ? html`<${Reading} error=${error} retry=${refresh} />` : html`<section class="panel">
      ${!rows.length && html`<${Empty}><p>There are no schedules.</p>
        ${can('jobs.submit') && html`<p>Run a command each night: <code>joblane schedules add nightly --cron '0 2 * * *' --zone Europe/Berlin -- make test</code></p>`}<//>`}
      ${rows.length > 0 && html`<${Table} caption="Schedules" rows=${rows} id=${(/** @type {Summary} */ each) => each.name} to=${(/** @type {Summary} */ each) => href(['schedules', each.name])}
        columns=${[
          { name: 'Schedule', className: 'short', cell: (/** @type {Summary} */ each) => each.name },
          { name: 'What', cell: (/** @type {Summary} */ each) => html`<code class="clamp">${each.what}</code>` },
          { name: 'When', cell: whenShown },
          { name: 'Next', cell: (/** @type {Summary} */ each) => (each.next ? html`<${Time} at=${each.next.starts_at} /><div class="about"><time datetime=${each.next.due_at}>${localTime(each.next.local)}</time></div>` : each.paused ? html`<${Badge} state="paused" />` : dash()) },
          { name: 'Last', cell: (/** @type {Summary} */ each) => (each.last ? html`<${Badge} state=${each.last.outcome} /> <${Time} at=${each.last.at} />` : dash()) },
          { name: 'Why nothing starts', className: 'wide', cell: (/** @type {Summary} */ each) => (each.why ? html`<${Sentence} text=${each.why} />` : dash()) },
        ]} />`}
      <${Pager} route=${route} next=${data.next} what="schedules" />
    </section>`}`;
}

/** @param {{ name: string, route: Route }} props */
function One({ name, route }) {
  const { data, error, refresh } = usePoll((signal) => /** @type {Promise<View>} */ (call('GET', path`v1/schedules/${name}`, { signal })), 10_000, [name]);
  const all = html`<a href=${href(['schedules'])}>Schedules</a>`;
  if (!data) {
    return html`<${Head} title=${name} about=${all} />
      <${Reading} error=${error} retry=${refresh} gone=${html`<p>There is no schedule ${name}.</p><p>${all}</p>`} />`;
  }
  /**
   * Ask, and do something to the schedule.
   * @param {'pause' | 'resume' | 'run'} word
   * @param {string} text  What it means.
   * @param {string} action
   */
  const act = async (word, text, action) => {
    const answer = await confirm({ title: `${action}: ${name}?`, text, action, reason: true });
    if (!answer) return;
    await perform((/** @type {Partial<Result>} */ done) => (word === 'run' ? done.text ?? '' : `${name}: ${word}d`), () =>
      call('POST', path`v1/schedules/${name}/${word}`, { body: { reason: answer.reason } }));
    refresh();
  };
  const { requeue, submission, running, created_by: by } = data;
  return html`
    <${Head} title=${name} about=${html`${all}: <code>${data.what}</code>`}>
      ${can('jobs.submit') && html`
        <button type="button" onClick=${() => act('run', 'It starts at once, whatever else runs. The next due time stays.', 'Run now')}>Run now</button>
        ${data.paused ? html`<button type="button" onClick=${() => act('resume', 'What was due meanwhile does not start.', 'Resume')}>Resume</button>`
          : html`<button type="button" onClick=${() => act('pause', 'Nothing starts until it is resumed. What was started goes on.', 'Pause')}>Pause</button>`}`}
    <//>
    ${data.why && html`<div class="notice warn" role="status"><p><strong>Nothing starts:</strong> <${Sentence} text=${data.why} /></p></div>`}
    ${data.warnings.map((each) => html`<div class="notice"><p>${each}</p></div>`)}
    <div class="grid">
      <${Section} title="Definition"><${Facts} entries=${[
        ['When', whenShown(data)],
        ['Not before', data.start && html`<${Time} at=${data.start} full />`],
        ['Not after', data.end && html`<${Time} at=${data.end} full />`],
        ['Jitter', data.jitter_s ? `up to ${duration(data.jitter_s)}` : null],
        ['If the one before still runs', OVERLAP[data.overlap]],
        ['After an outage', `the latest missed time starts, up to ${duration(Math.max(data.catch_up_s, 120))} late`],
        ['After a failure', data.pause_on_failure ? 'it pauses' : 'it goes on'],
        ['Started last', running && html`<a href=${href(['jobs', running])}><${Id} text=${running} /></a>`],
        ['Declared', data.declared ? 'in joblane.toml' : null],
        ['Created', html`<${Time} at=${data.created_at} />${by && ` by ${by.name}`}`],
      ]} />
      <details open><summary>${requeue ? 'Requeue' : 'Submission'}</summary>
        <pre class="code" tabindex="0" aria-label="What it starts">${JSON.stringify(requeue ?? submission, null, 2)}</pre></details><//>
      <${Calendar} schedule=${data} />
    </div>
    <${Results} name=${name} route=${route} />`;
}

/** The next due times, a row for each day. @param {{ schedule: View }} props */
function Calendar({ schedule }) {
  const { name, cron, every_s, zone, jitter_s, start, end, version } = schedule;
  const { data, error, refresh } = usePoll((signal) => /** @type {Promise<import('../types').Preview>} */ (
    call('POST', 'v1/schedules/preview', { body: { name, cron, every_s, zone, jitter_s, start, end, count: AHEAD }, signal })), 60_000, [name, version]);
  const days = daysOf(data?.next_times ?? []);
  return html`<${Section} title=${`Next times in ${zone}`}>
    ${!data ? html`<${Reading} error=${error} retry=${refresh} />` : !days.length ? html`<${Empty}><p>It is never due again.</p><//>`
      : html`<${Table} caption="Next times" rows=${days} id=${(/** @type {import('../schedule-times.js').Day} */ day) => day.date} columns=${[
        { name: 'Day', cell: (/** @type {import('../schedule-times.js').Day} */ day) => `${day.weekday} ${day.date}` },
        { name: 'Due', className: 'wide', cell: (/** @type {import('../schedule-times.js').Day} */ day) => html`${day.times}${day.more > 0 && ` and ${day.more} more`}${day.changes && html` <span class="tone-warn">clocks change</span>`}` },
        { name: 'Starts', cell: (/** @type {import('../schedule-times.js').Day} */ day) => html`<${Time} at=${day.starts_at} />` },
      ]} />`}
  <//>`;
}

/** @param {{ name: string, route: Route }} props */
function Results({ name, route }) {
  const next = route.query.get('next');
  const { data, error, refresh } = useList(path`v1/schedules/${name}/results`, { next }, { most: 20, everyMs: 10_000 });
  const rows = /** @type {Result[]} */ (data?.entries ?? []);
  return html`<${Section} title="Results, the newest first">
    ${!data ? html`<${Reading} error=${error} retry=${refresh} />` : html`
      ${!rows.length && html`<${Empty}><p>Nothing was due yet.</p><//>`}
      ${rows.length > 0 && html`<${Table} caption="Results" rows=${rows} id=${(/** @type {Result} */ each) => each.due_at + each.cause} columns=${[
        { name: 'Due', cell: (/** @type {Result} */ each) => html`<${Time} at=${each.due_at} full />${each.to_at && html`<div class="about">to <${Time} at=${each.to_at} full />, ${each.times ?? 'more than 10,000'} times</div>`}` },
        { name: 'Result', cell: (/** @type {Result} */ each) => html`<${Badge} state=${each.outcome} />${each.cause !== 'due' && html` <span class="about">${each.cause}</span>`}` },
        { name: 'Job', cell: (/** @type {Result} */ each) => (each.job_id ? html`<a href=${href(['jobs', each.job_id])}><${Id} text=${each.job_id} /></a>` : dash()) },
        { name: 'Why', className: 'wide', cell: (/** @type {Result} */ each) => html`<${Sentence} text=${each.text} />` },
      ]} />`}
      <${Pager} route=${route} next=${data.next} what="results" />`}
  <//>`;
}

/** @param {Summary} schedule */
function whenShown(schedule) {
  return html`<code>${whenOf(schedule)}</code>${schedule.cron && html`<div class="about">${schedule.zone}</div>`}`;
}
