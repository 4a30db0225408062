/** Parts of the page of a job: timeline, usage and cost, specification, related jobs, links, files, audit trail. */

import { path } from '../api.js';
import { linePath } from '../chart-lines.js';
import { estimate } from '../cost.js';
import { hasEnded } from '../job-actions.js';
import { fill } from '../links.js';
import { PAGE, readList } from '../lists.js';
import { Badge, Copy, Facts, Failure, Id, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { summary } from '../session.js';
import { exitCodes, limitsOf, specificationOf } from '../submission.js';
import { bytes, clock, duration, now, utc, zone } from '../time.js';
import { rows, totals } from '../timeline.js';
import { html, useRef, useState, useStore } from '../view.js';

/** @typedef {import('../types').Job} Job */
/** @typedef {import('../types').AuditEntry} AuditEntry */
/** @typedef {{ cpu_s?: number, wall_s?: number, peak_memory_bytes?: number, io_read_bytes?: number, io_write_bytes?: number, pids_peak?: number }} Used */

const MIB = 1024 * 1024;

/** What the last attempt used, and what all of them cost. @param {{ job: Job }} props */
export function Usage({ job }) {
  const nowMs = useStore(now);
  const price = useStore(summary)?.prices[job.queue];
  const used = /** @type {Used | null} */ (job.usage);
  const seconds = totals(rows(job.timeline, nowMs)).run;
  if (!used && !seconds) return null;
  const live = job.stats;
  const limit = job.limits.memory_mb * MIB;
  const peak = used?.peak_memory_bytes;
  const share = used?.wall_s ? `${Math.round((100 * (used.cpu_s ?? 0)) / used.wall_s)} % of a core` : '';
  return html`<${Section} title="Usage">
    <${Facts} entries=${[
      ['CPUs in use', live && html`${live.cpus}${job.limits.cpus && html` <span class="about">of ${job.limits.cpus}</span>`} <${Spark} value=${live.cpus} at=${live.at} text=${String} />`],
      ['Memory in use', live && html`${bytes(live.memory_mb * MIB)} <span class="about">of ${bytes(limit)}</span> <${Spark} value=${live.memory_mb} at=${live.at} text=${(/** @type {number} */ mb) => bytes(mb * MIB)} />`],
      ['CPU time', used?.cpu_s !== undefined && html`${duration(used.cpu_s)} <span class="about">${share}${job.limits.cpus ? `, limit ${job.limits.cpus}` : ''}</span>`],
      ['Most memory', peak !== undefined && peak !== null && html`<meter min="0" max="1" high="0.9" value=${peak / limit} aria-label="Memory used of its limit"></meter> ${bytes(peak)} <span class="about">of ${bytes(limit)}</span>`],
      ['Read and written', used?.io_read_bytes !== undefined && used.io_read_bytes !== null && `${bytes(used.io_read_bytes)}, ${bytes(used.io_write_bytes ?? 0)}`],
      ['Most processes', used?.pids_peak],
      ['Time on agents', seconds > 0 && duration(seconds)],
      ['Cost, estimated', price && seconds > 0 && html`${estimate(seconds, price)} <span class="about">for its slot</span>`],
    ].map(([name, value]) => [name, value === false ? null : value])} />
  <//>`;
}

/**
 * The last ten minutes of a figure of heartbeats, since the page was opened, from zero to the most of them.
 * It grows from the left over the first two minutes.
 * @param {{ value: number, at: string, text: (value: number) => string }} props
 */
function Spark({ value, at, text }) {
  const seen = useRef(/** @type {Map<string, number>} */ (new Map()));
  seen.current.set(at, value);
  const shown = [...seen.current].slice(-60);
  const values = shown.map(([, each]) => each);
  const most = Math.max(...values);
  if (values.length < 2) return null;
  const step = 60 / Math.max(values.length - 1, 11);
  const line = linePath(values.map((_, n) => n * step), values, (each) => 19 - (18 * each) / (most || 1));
  const overS = (Date.parse(at) - Date.parse(shown[0]?.[0] ?? at)) / 1000;
  return html`<svg class="spark" viewBox="0 0 60 20" preserveAspectRatio="none" aria-hidden="true">
    <path class="area" d=${`${line}V19H0Z`} /><path d=${line} /></svg><span class="about">most ${text(most)} in ${duration(overS)}</span>`;
}

/** Links to other systems, by the templates of joblane.toml. @param {{ job: Job }} props */
export function Links({ job }) {
  const known = useStore(summary);
  const values = {
    job_id: job.id, tenant: job.tenant, type: job.type, queue: job.queue, agent: job.agent,
    trace_id: job.traceparent?.split('-')[1],
  };
  const links = (known?.links ?? []).flatMap(({ name, template }) => {
    const url = fill(template, values);
    return url ? [{ name, url }] : [];
  });
  if (!links.length) return null;
  return html`<${Section} title="Elsewhere"><ul class="chips">${links.map(({ name, url }) => html`<li key=${name}>
    <a class="button" href=${url} target="_blank" rel="noopener noreferrer">${name} ↗</a></li>`)}</ul><//>`;
}

/** The fields as submitted. @param {{ job: Job }} props */
export function Specification({ job }) {
  const fields = specificationOf(job);
  const json = JSON.stringify(fields, null, 2);
  const env = Object.entries(job.env);
  return html`<${Section} title="Specification" actions=${html`<${Copy} text=${json} what="the specification as JSON" />`}>
    ${job.command.length > 0 && html`<pre class="code" tabindex="0" aria-label="Command">${job.command.map(quoted).join(' ')}</pre>`}
    ${job.value !== null && html`<h3>Value</h3><pre class="code" tabindex="0">${JSON.stringify(job.value, null, 2)}</pre>`}
    ${job.params && html`<h3>Params</h3><pre class="code" tabindex="0">${JSON.stringify(job.params, null, 2)}</pre>`}
    <${Facts} entries=${[
      ['Type', job.type && html`<a href=${href(['types', job.type])}>${job.type}</a>${job.type_version !== null && ` version ${job.type_version}`}`],
      ['Limits', limitsOf(job)],
      ['Time limit of an attempt', duration(job.timeout_s)],
      ['Attempts', job.retry.max_attempts === 1 ? 1 : `${job.retry.max_attempts}, with waits of up to ${job.retry.backoff_s.slice(0, job.retry.max_attempts - 1).map((s) => duration(s)).join(', ')}`],
      ['Exit codes', exitCodes(job.exit_codes)],
      ['Restartable', job.restartable ? null : 'no'],
      ['Network', job.network],
      ['Standard error', job.merge_stderr ? 'a part of standard output' : null],
      ['Secrets in the output', job.mask_secrets ? null : 'are shown'],
      ['Earliest start', job.run_at && html`<${Time} at=${job.run_at} full=${true} />`],
      ['Deadline', job.deadline && html`<${Time} at=${job.deadline} full=${true} />`],
      ['Needs', job.requires.join(', ')],
      ['Target', job.target],
      ['Items', job.items === 1 ? null : job.items],
      ['Labels', Object.keys(job.labels).length > 0 && html`<span class="chips">${Object.entries(job.labels).map(([key, value]) =>
        html`<a class="chip" href=${href(['jobs'], { label: `${key}=${value}` })}>${key}=${value}</a>`)}</span>`],
    ].map(([name, value]) => [name, value === false ? null : value])} />
    ${env.length > 0 && html`<h3>Environment</h3><pre class="code" tabindex="0" aria-label="Environment">${env.map(([name, value]) => `${name}=${value}`).join('\n')}</pre>`}
    <details><summary>As JSON</summary><pre class="code" tabindex="0">${json}</pre></details>
  <//>`;
}

/** A word of a shell's command line. @param {string} word */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Jobs that belong to it, as facts. @param {Job} job @returns {[string, unknown][]} */
export function relatedTo(job) {
  const link = (/** @type {string} */ id) => html`<a href=${href(['jobs', id])}><${Id} text=${id} /></a>`;
  return [
    ['Schedule', job.schedule && html`<a href=${href(['schedules', job.schedule])}>${job.schedule}</a>, due <${Time} at=${job.scheduled_at} full=${true} />`],
    ['Repeats', job.resubmit_of && link(job.resubmit_of)],
    ['Repeated as', job.resubmitted_as && link(job.resubmitted_as)],
    ['Key', job.key && html`<a href=${href(['keys', job.key.type, job.key.id])}>${job.key.type} <${Id} text=${job.key.id} short=${8} /></a>${job.slot !== null && ` slot ${job.slot}`}`],
    ['Same type', job.type && html`<a href=${href(['jobs'], { type: job.type })}>jobs of type ${job.type}</a>`],
    ['Same name', job.name && html`<a href=${href(['jobs'], { name: job.name })}>jobs named ${job.name}</a>`],
  ];
}

/** Who did what with it. @param {{ id: string, state: string }} props */
export function Audit({ id, state }) {
  const [open, setOpen] = useState(false);
  return html`<${Section} title="Audit trail" actions=${!open && html`<button type="button" onClick=${() => setOpen(true)}>Show</button>`}>
    ${open ? html`<${Entries} id=${id} state=${state} />` : html`<p class="about">Who submitted it, and who did what with it since.</p>`}
  <//>`;
}

/** @param {{ id: string, state: string }} props */
function Entries({ id, state }) {
  const { data, error, refresh } = usePoll((signal) => readList(path`v1/jobs/${id}/audit`, {}, 100, signal), hasEnded({ state }) ? 0 : 15_000, [id, state]);
  const entries = /** @type {AuditEntry[]} */ (data?.entries ?? []);
  if (!data) return error ? html`<${Failure} error=${error} retry=${refresh} />` : html`<p class="about" role="status">Reading…</p>`;
  return html`<${Table} caption="Audit trail of the job" rows=${entries} id=${(/** @type {AuditEntry} */ entry) => entry.id} columns=${[
    { name: 'When', cell: (/** @type {AuditEntry} */ entry) => html`<${Time} at=${entry.at} full=${true} />` },
    { name: 'Who', cell: (/** @type {AuditEntry} */ entry) => `${entry.by?.name ?? 'unknown'}${entry.by_platform ? ' (platform)' : ''}` },
    { name: 'What', cell: (/** @type {AuditEntry} */ entry) => entry.action },
    { name: 'Reason or refusal', className: 'wide', cell: (/** @type {AuditEntry} */ entry) => (entry.refused ? `refused: ${entry.refused.detail}` : entry.reason ?? '') },
  ]} />`;
}

/** @typedef {import('../types').Transition} Transition */

/** @type {[import('../timeline.js').Kind, string][]} */
const KINDS = [['queue', 'in the queue'], ['run', 'ran'], ['backoff', 'between attempts'], ['wait', 'waited for a time, a key or a condition']];

/** Rows of bars that are shown first; and lines of the list at each end. */
const FEW = 8;

/** @param {{ job: Job }} props */
export function Timeline({ job }) {
  const nowMs = useStore(now);
  const inUtc = useStore(utc);
  const [whole, setWhole] = useState(false);
  const all = rows(job.timeline, nowMs);
  const sums = totals(all);
  const fromMs = Date.parse(job.created_at);
  const toMs = Math.max(job.ended_at ? Date.parse(job.ended_at) : nowMs, fromMs + 1);
  const share = (/** @type {number} */ ms) => `${(100 * (ms - fromMs)) / (toMs - fromMs)}%`;
  const steps = job.timeline;
  const hidden = whole ? 0 : Math.max(0, steps.length - 2 * FEW);
  return html`<${Section} title="Timeline">
    <div class="bars" aria-hidden="true">
      ${(whole ? all : all.slice(-FEW)).map((row) => html`<div class="bars-row" key=${row.bars[0]?.fromMs}>
        <span class="bars-name">Attempt ${row.attempt}</span>
        <span class="bars-track">${row.bars.map((bar) => html`<span class=${`bars-bar ${bar.kind}`} title=${`${bar.state} ${duration((bar.toMs - bar.fromMs) / 1000)}`}
          style=${{ left: `min(${share(bar.fromMs)}, 100% - 3px)`, width: share(fromMs + bar.toMs - bar.fromMs) }}></span>`)}</span>
      </div>`)}
      <div class="bars-axis about"><span>${clock(fromMs, inUtc).slice(11)}</span><span>${duration((toMs - fromMs) / 1000)}</span><span>${clock(toMs, inUtc).slice(11)}</span></div>
    </div>
    <p class="legend bars-legend">${KINDS.filter(([kind]) => sums[kind] > 0).map(([kind, name]) => html`<span><span class=${`bars-key ${kind}`} aria-hidden="true"></span> ${duration(sums[kind])} ${name}</span>`)}</p>
    <ol class="steps" aria-label=${`Transitions, times in ${zone(inUtc)}`}>
      ${steps.slice(0, hidden ? FEW : undefined).map((step, n) => html`<${Step} step=${step} before=${steps[n - 1]} />`)}
      ${hidden > 0 && html`<li><button type="button" onClick=${() => setWhole(true)}>Show ${hidden} more</button></li>
        ${steps.slice(-FEW).map((step, n, few) => html`<${Step} step=${step} before=${few[n - 1]} />`)}`}
    </ol>
  <//>`;
}

/** @param {{ step: Transition, before: Transition | undefined }} props */
function Step({ step, before }) {
  const inUtc = useStore(utc);
  const at = clock(step.at, inUtc);
  const sameDay = clock(before?.at ?? Date.now(), inUtc).slice(0, 10) === at.slice(0, 10);
  return html`<li><time datetime=${step.at} title=${`${clock(step.at, false)} ${zone(false)} · ${clock(step.at, true)} UTC`}>${sameDay ? at.slice(11) : at}</time> <${Badge} state=${step.state} />
    <span>${step.state === 'active' ? `attempt ${step.attempt}` : html`<${Sentence} text=${step.reason} />`}${step.agent && html` <span class="about">on ${step.agent}${step.version && `, version ${step.version}`}</span>`}</span></li>`;
}

/** @typedef {import('../types').ListedFile} ListedFile */

/** Links end after five minutes. */
const RENEW_MS = 120_000;

/** @param {{ job: Job }} props */
export function Files({ job }) {
  const [open, setOpen] = useState(false);
  const found = job.output_files;
  if (!found) return null;
  const show = found.count > 0 && !open && html`<button type="button" onClick=${() => setOpen(true)}>Show</button>`;
  return html`<${Section} title="Output files" actions=${show}>
    <p>${found.count} ${found.count === 1 ? 'file' : 'files'}, ${bytes(found.bytes)}</p>
    ${(found.unmatched ?? []).map((glob) => html`<p key=${glob}>No file matched <code>${glob}</code>.</p>`)}
    ${(found.skipped ?? []).map((entry) => html`<p key=${entry.path}><code>${entry.path}</code> was not collected: ${entry.why}.</p>`)}
    ${open && html`<${List} id=${job.id} epoch=${found.epoch} count=${found.count} />`}
  <//>`;
}

/** @param {{ id: string, epoch: number, count: number }} props */
function List({ id, epoch, count }) {
  const { data, error, refresh } = usePoll(
    (signal) => readList(path`v1/jobs/${id}/outputs`, { links: 'true' }, PAGE, signal), RENEW_MS, [id, epoch]);
  if (!data) return error ? html`<${Failure} error=${error} retry=${refresh} />` : html`<p class="about" role="status">Reading…</p>`;
  const files = /** @type {ListedFile[]} */ (data.entries);
  return html`<${Table} caption="Output files of the job" rows=${files} id=${(/** @type {ListedFile} */ file) => file.path} columns=${[
    { name: 'File', className: 'wide', cell: (/** @type {ListedFile} */ file) => html`<a href=${file.url ?? ''} download rel="noopener noreferrer">${file.path}</a>` },
    { name: 'Size', className: 'number', cell: (/** @type {ListedFile} */ file) => bytes(file.size) },
    { name: 'Mode', className: 'minor', cell: (/** @type {ListedFile} */ file) => file.mode },
  ]} />
  ${count > files.length && html`<p class="about">The first ${files.length}. All: <code>joblane download ${id}</code></p>`}`;
}
