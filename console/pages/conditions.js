/** Conditions that jobs wait for, and declarations that an application is up or down. */

import { call, path } from '../api.js';
import { confirm, perform } from '../dialogs.js';
import { valueOf } from '../fields.js';
import { Empty, Head, Pager, Reading, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { can, canAny, summary } from '../session.js';
import { html, useState, useStore } from '../view.js';

/** @typedef {import('../types').ConditionView} Condition */
/** @typedef {import('../types').AppView} App */
/** @typedef {import('../types').OutageView} Outage */

/** What a condition of each kind waits for. @type {Record<string, string>} */
const KINDS = {
  app: 'application',
  capacity: 'free slots of a fleet',
  http: 'address that answers',
  quota: 'free slots for the tenant',
  tcp: 'port that accepts connections',
};

/** @param {{ route: import('../router.js').Route }} props */
export default function Page({ route }) {
  const tenant = useStore(summary)?.caller.tenant;
  return html`
    <${Head} title="Conditions" about=${tenant ? 'What jobs wait for outside Joblane. Each condition is tested again and again; its jobs go on by themselves when it holds.' : 'The state of applications for all tenants.'} />
    ${can('admin.read') && html`<${Blocking} route=${route} />`}
    ${canAny('admin.mutate', 'platform.mutate') && html`<${Declare} />`}`;
}

/** @param {{ route: import('../router.js').Route }} props */
function Blocking({ route }) {
  const next = route.query.get('next');
  const { data, error, refresh } = usePoll((signal) => /** @type {Promise<import('../types').ConditionPage>} */ (
    call('GET', 'v1/conditions', { query: { limit: 50, next }, signal })), 5000, [next]);
  if (!data) return html`<${Reading} error=${error} retry=${refresh} />`;
  const rows = data.entries;
  const down = data.down.length > 0 && html`<${Down} apps=${data.down} refresh=${refresh} />`;
  if (!rows.length && !next) {
    return html`<section class="panel"><${Empty}>
      <p>No job is blocked by a condition.</p>
      <p>A job whose exit code says that it waits for a condition, or whose <code>requires</code> do not hold, waits here until they do.</p>
    <//></section>${down}`;
  }
  return html`<${Section} title="Jobs wait for" actions=${html`<a href=${href(['jobs'], { state: 'blocked' })}>All blocked jobs</a>`}>
    <${Table} caption="Conditions that jobs wait for" rows=${rows} id=${(/** @type {Condition} */ each) => each.name}
      columns=${[
        { name: 'Condition', cell: (/** @type {Condition} */ each) => html`<strong>${each.name}</strong><div class="about">${KINDS[each.kind] ?? each.kind}</div>` },
        { name: 'Jobs', className: 'number', cell: (/** @type {Condition} */ each) => html`<a href=${href(['jobs'], { state: 'blocked' })}>${each.waiting}${each.more ? '+' : ''}<span class="hidden"> blocked jobs</span></a>` },
        { name: 'Since', cell: (/** @type {Condition} */ each) => html`<${Time} at=${each.since_at} />` },
        { name: 'Last test', className: 'wide', cell: (/** @type {Condition} */ each) => html`<${Sentence} text=${each.reason || 'not tested yet'} /><div class="about">${each.tests === 1 ? '1 test' : `${each.tests} tests`} without a release</div>` },
        { name: 'Next test', cell: (/** @type {Condition} */ each) => (each.next_test_at ? html`<${Time} at=${each.next_test_at} />` : 'about to start') },
        { name: 'Gives up', className: 'minor', cell: (/** @type {Condition} */ each) => html`<${Time} at=${each.gives_up_at} /><div class="about">policy ${each.policy}</div>` },
        ...(can('admin.mutate') ? [{ name: 'Actions', cell: (/** @type {Condition} */ each) => each.kind === 'app' && html`<div class="actions tight">
          <button type="button" onClick=${() => declare(each.name, 'up', refresh)}>Declare up</button>
          <button type="button" onClick=${() => declare(each.name, 'down', refresh)}>Declare down</button></div>` }] : []),
      ]} />
    <${Pager} route=${route} next=${data.next} what="conditions" />
  <//>${down}`;
}

/** Applications that are declared down, also those that no job waits for. @param {{ apps: readonly Outage[], refresh: () => void }} props */
function Down({ apps, refresh }) {
  return html`<${Section} title="Declared down">
    <${Table} caption="Declarations" rows=${apps} id=${(/** @type {Outage} */ app) => `${app.name} ${app.all_tenants}`} columns=${[
      { name: 'Application', cell: (/** @type {Outage} */ app) => html`<strong>${app.name}</strong>${app.all_tenants && html`<div class="about">for all tenants</div>`}` },
      { name: 'Reason', className: 'wide', cell: (/** @type {Outage} */ app) => html`<${Sentence} text=${app.reason} />` },
      { name: 'Until', cell: (/** @type {Outage} */ app) => html`<${Time} at=${app.until_at} full />` },
      ...(can('admin.mutate') ? [{ name: 'Actions', cell: (/** @type {Outage} */ app) => !app.all_tenants && html`<button type="button" onClick=${() => declare(app.name, 'up', refresh)}>Declare up</button>` }] : []),
    ]} /><//>`;
}

/** A form for an application that no job waits for yet. */
function Declare() {
  const [name, setName] = useState('');
  const [done, setDone] = useState(/** @type {App[]} */ ([]));
  const everywhere = can('platform.mutate');
  /** @param {SubmitEvent} event */
  const submit = async (event) => {
    event.preventDefault();
    const state = /** @type {HTMLButtonElement | null} */ (event.submitter)?.value === 'up' ? 'up' : 'down';
    const app = await declare(`app:${name.trim().replace(/^app:/, '')}`, state, () => undefined);
    if (app) setDone([app, ...done.filter((each) => each.name !== app.name)]);
  };
  return html`<${Section} title="Declare an application">
    <form onSubmit=${submit}>
      <p class="about">While an application is down, jobs that require it do not start${everywhere ? ', of any tenant' : ''}. A declaration ends by itself after 48 hours.</p>
      <div class="bar">
        <label>Application<input type="text" required pattern="(app:)?[a-zA-Z0-9][a-zA-Z0-9_.\\-]*" maxlength="68" placeholder="billing" spellcheck=${false} autocapitalize="none"
          title="Letters, digits, dots, hyphens and underscores" value=${name} onInput=${(/** @type {Event} */ event) => setName(valueOf(event))} /></label>
        <button type="submit" value="down">Declare down</button>
        <button type="submit" value="up">Declare up</button>
      </div>
    </form>
    ${done.length > 0 && html`<${Table} caption="Declared just now" rows=${done} id=${(/** @type {App} */ app) => app.name} columns=${[
      { name: 'Declared just now', cell: (/** @type {App} */ app) => html`<strong>${app.name}</strong>` },
      { name: 'State', cell: (/** @type {App} */ app) => (app.state === 'down' ? '▼ down' : '▲ up') },
      { name: 'Reason', className: 'wide', cell: (/** @type {App} */ app) => html`<${Sentence} text=${app.reason} />` },
      { name: 'Until', cell: (/** @type {App} */ app) => (app.until_at ? html`<${Time} at=${app.until_at} full />` : '–') },
    ]} />`}
  <//>`;
}

/**
 * Ask, then declare an application up or down.
 * @param {string} name  Such as `app:billing`.
 * @param {'up' | 'down'} state
 * @param {() => void} refresh
 * @returns {Promise<App | null>}
 */
async function declare(name, state, refresh) {
  const whose = can('platform.mutate') ? 'of all tenants' : 'of your tenant';
  const answer = await confirm({
    title: `Declare ${name} ${state}?`,
    text: state === 'down'
      ? `Jobs ${whose} that require it do not start, and jobs that wait for it stay blocked. It ends by itself after 48 hours.`
      : `Jobs ${whose} that wait for it start again, some with each test.`,
    action: `Declare ${state}`,
    reason: true,
  });
  if (!answer) return null;
  const app = await perform(`${name} is declared ${state}`, () =>
    /** @type {Promise<App>} */ (call('PUT', path`v1/conditions/${name}`, { body: { state, reason: answer.reason ?? '' } })));
  refresh();
  return app;
}
