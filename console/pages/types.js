/** Job types: what can be submitted by name, and one type with the schemas of its parameters and results. */

import { call, path } from '../api.js';
import { confirm, perform } from '../dialogs.js';
import { Copy, dash, Empty, Facts, Head, Id, Reading, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { oldest, open } from '../queue-figures.js';
import { go, href } from '../router.js';
import { resolved, typeName } from '../schema.js';
import { can } from '../session.js';
import { exitCodes } from '../submission.js';
import { bytes, duration } from '../time.js';
import { html } from '../view.js';

/** @typedef {import('../types').TypePage} Types */
/** @typedef {import('../types').TypeEntry} Entry */
/** @typedef {import('../types').TypeView} View */
/** @typedef {import('../schema.js').Schema} Schema */

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const name = route.path[1];
  return name ? html`<${One} name=${name} />` : html`<${List} />`;
}

function List() {
  const { data, error, refresh } = usePoll((signal) => /** @type {Promise<Types>} */ (call('GET', 'v1/types', { query: { counts: true }, signal })), 30_000, []);
  const rows = data?.entries ?? [];
  return html`
    <${Head} title="Job types" about="Python functions that are submitted by name, with parameters that are checked." />
    ${!data && html`<${Reading} error=${error} retry=${refresh} />`}
    ${data && html`<section class="panel">
      <${Table} caption="Job types" rows=${rows} id=${(/** @type {Entry} */ each) => each.type} to=${(/** @type {Entry} */ each) => href(['types', each.type])}
        columns=${[
          { name: 'Type', cell: (/** @type {Entry} */ each) => each.type },
          { name: 'Version', className: 'number', cell: (/** @type {Entry} */ each) => each.version ?? 'built in' },
          { name: 'What it does', className: 'wide', cell: (/** @type {Entry} */ each) => each.description || dash() },
          { name: 'Queue', cell: (/** @type {Entry} */ each) => each.defaults.queue ?? html`<span class="none">the default</span>` },
          { name: 'Key', className: 'minor', cell: (/** @type {Entry} */ each) => (each.key ? html`<a href=${href(['keys'], { type: each.type })}>${each.key.segments.join(' / ')}</a>` : dash()) },
          { name: 'Waiting', className: 'number', cell: (/** @type {Entry} */ each) => open(each.jobs?.waiting) },
          { name: 'Running', className: 'number', cell: (/** @type {Entry} */ each) => open(each.jobs?.running) },
          { name: 'Oldest waiting', className: 'number', cell: oldest },
          { name: 'Pushed', className: 'minor', cell: (/** @type {Entry} */ each) => html`<${Time} at=${each.pushed_at} />${each.pushed_by && html`<div class="about">by ${each.pushed_by.name}</div>`}` },
          ...(can('jobs.submit') ? [{ name: 'Run', cell: (/** @type {Entry} */ each) => html`<a class="button" href=${href(['submit'], { type: each.type })}>Run<span class="hidden"> ${each.type}</span></a>` }] : []),
        ]} />
      ${rows.every((each) => each.version === null) && html`<${Empty}>
        <p>Your tenant has no types of its own yet.</p>
        ${can('admin.mutate') ? html`<p>Write a function with <code>@job_type</code>, then <code>joblane types push PACKAGE</code>.</p>` : html`<p>The role operator can push one with <code>joblane types push PACKAGE</code>.</p>`}<//>`}
    </section>`}`;
}

/** @param {{ name: string }} props */
function One({ name }) {
  const { data, error, refresh } = usePoll((signal) => /** @type {Promise<View>} */ (call('GET', path`v1/types/${name}`, { signal })), 30_000, [name]);
  if (!data) {
    return html`<${Head} title=${name} about=${html`<a href=${href(['types'])}>Job types</a>`} />
      <${Reading} error=${error} retry=${refresh} gone=${html`<p>There is no job type ${name}.</p><p><a href=${href(['types'])}>See all job types</a></p>`} />`;
  }
  const remove = async () => {
    const answer = await confirm({
      title: `Remove the job type ${name}?`,
      text: 'New jobs of this type are refused. Jobs that were accepted run to their end with their version.',
      action: 'Remove the type',
      danger: true,
      reason: true,
    });
    if (!answer) return;
    const done = await perform(`${name} removed`, async () => {
      await call('DELETE', path`v1/types/${name}`, { body: { reason: answer.reason } });
      return true;
    });
    if (done) go(href(['types']));
  };
  const { defaults, key } = data;
  const entries = Object.entries(defaults.env ?? {});
  return html`
    <${Head} title=${name} about=${data.description || 'A job type without a description.'}>
      ${can('jobs.submit') && html`<a class="button primary" href=${href(['submit'], { type: name })}>Run</a>`}
      <a class="button" href=${href(['jobs'], { type: name })}>Its jobs</a>
      ${key && html`<a class="button" href=${href(['keys'], { type: name })}>Its keys</a>`}
      ${can('admin.mutate') && data.version !== null && html`<button type="button" class="danger" onClick=${remove}>Remove</button>`}
    <//>
    <div class="grid">
      <${Section} title="Definition"><${Facts} entries=${[
        ['Version', data.version ?? 'built in'],
        ['Handler', data.entry && html`<code>${data.entry}</code>`],
        ['Python', data.python],
        ['Work items', data.items ? html`length of <code>${data.items}</code>` : 'one a job'],
        ['Pushed', data.pushed_at && html`<${Time} at=${data.pushed_at} full />`],
        ['Pushed by', data.pushed_by && `${data.pushed_by.name}${data.pushed_by.kind === 'machine' ? ' (machine)' : ''}`],
        ...Object.entries(data.bundles).map(([architecture, digest]) => /** @type {[string, unknown]} */ ([`Bundle for ${architecture}`, html`<${Id} text=${digest} short=${16} /> <${Copy} text=${digest} what=${`digest for ${architecture}`} />`])),
      ]} /><//>
      <${Section} title="Defaults of a submission"><${Facts} entries=${[
        ['Queue', defaults.queue ?? 'the default queue'],
        ['Lane', defaults.priority ?? 'default'],
        ['Time limit of an attempt', seconds(defaults.timeout_s)],
        ['Longest silence', seconds(defaults.heartbeat_timeout_s)],
        ['Attempts', defaults.retry?.max_attempts],
        ['Exit codes', exitCodes(defaults.exit_codes)],
        ['CPUs', defaults.resources?.cpus],
        ['Memory', defaults.resources?.memory_mb && bytes(defaults.resources.memory_mb * 2 ** 20)],
        ['Network', defaults.network],
        ['Runs again if its agent is lost', defaults.restartable === null ? null : defaults.restartable ? 'yes' : 'no'],
        ['Environment', entries.length ? html`<code>${entries.map(([variable, value]) => `${variable}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join('\n')}</code>` : null],
      ]} /><//>
    </div>
    ${key && html`<${Section} title="Key" actions=${html`<a href=${href(['keys'], { type: name })}>Who has it now</a>`}><${Facts} entries=${[
      ['Segments', html`<code>${JSON.stringify(key.segments)}</code>`],
      ['Jobs with a slot at once', key.max_active],
      ['Jobs that wait', `up to ${key.max_queued}`],
      ['When full', key.when_full],
      ['If an agent is lost', key.stale_policy],
    ]} /><//>`}
    <${Shape} title="Parameters" schema=${data.params_schema} none="It takes no parameters." />
    ${data.result_schema ? html`<${Shape} title="Result" schema=${data.result_schema} none="" />`
      : html`<${Section} title="Result"><p class="about">Any JSON; it has no schema.</p><//>`}`;
}

/** A schema as a table of its members, and as it is. @param {{ title: string, schema: Schema, none: string }} props */
function Shape({ title, schema, none }) {
  const required = /** @type {string[]} */ (Array.isArray(schema.required) ? schema.required : []);
  const rows = Object.entries(/** @type {Record<string, Schema>} */ (schema.properties ?? {})).map(([name, member]) => ({ name, member: resolved(member, schema) }));
  /** @typedef {{ name: string, member: Schema }} Row */
  return html`<${Section} title=${title}>
    ${!rows.length && none && html`<p class="about">${none}</p>`}
    ${rows.length > 0 && html`<${Table} caption=${title} rows=${rows} id=${(/** @type {Row} */ row) => row.name} columns=${[
      { name: 'Name', cell: (/** @type {Row} */ row) => html`<code>${row.name}</code>` },
      { name: 'Type', cell: (/** @type {Row} */ row) => typeName(row.member, schema) },
      { name: 'Needed', cell: (/** @type {Row} */ row) => (required.includes(row.name) ? 'yes' : 'no') },
      { name: 'Default', className: 'minor', cell: (/** @type {Row} */ row) => (row.member.default === undefined ? dash() : html`<code>${JSON.stringify(row.member.default)}</code>`) },
      { name: 'Description', className: 'wide', cell: (/** @type {Row} */ row) => String(row.member.description ?? '') },
    ]} />`}
    <details><summary>JSON Schema</summary>
      <div class="actions"><${Copy} text=${JSON.stringify(schema, null, 2)} what=${`the schema: ${title}`} /></div>
      <pre class="code" tabindex="0" aria-label=${`JSON Schema: ${title}`}>${JSON.stringify(schema, null, 2)}</pre></details>
  <//>`;
}

/** @param {number | null} value */
function seconds(value) {
  return value === null ? null : duration(value);
}
