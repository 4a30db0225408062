/** The console: login, the frame around all pages, and which page an address shows. */

import { connection } from './api.js';
import { begin, login, logOut, start } from './auth.js';
import { Dialogs, useDialog } from './dialogs.js';
import { enabled, shortcuts, toggleShortcuts, useKeys } from './keys.js';
import { Empty, Head, Loading, Reading } from './parts.js';
import { troubles, usePoll } from './poll.js';
import { go, href, route } from './router.js';
import { can, canAny, readSummary, SUMMARY_MS, summary } from './session.js';
import { clock, toggleUtc, utc, zone } from './time.js';
import { html, render, useEffect, useMemo, useRef, useState, useStore } from './view.js';

/** @typedef {import('./session.js').Scope} Scope */

/**
 * @typedef {object} Entry
 * @property {string} name  First segment of its addresses; empty for the overview.
 * @property {string} title
 * @property {string} [key]  Shortcut after `g`.
 * @property {Scope[]} scopes  The reader needs one of these.
 */

/** Pages of the menu. @type {Entry[]} */
const MENU = [
  { name: '', title: 'Overview', key: 'o', scopes: ['jobs.read', 'platform.read'] },
  { name: 'jobs', title: 'Jobs', key: 'j', scopes: ['jobs.read'] },
  { name: 'groups', title: 'Groups', key: 'g', scopes: ['jobs.read'] },
  { name: 'schedules', title: 'Schedules', key: 'h', scopes: ['jobs.read'] },
  { name: 'queues', title: 'Queues', key: 'q', scopes: ['jobs.read', 'platform.read'] },
  { name: 'dead', title: 'Dead letters', key: 'd', scopes: ['admin.read'] },
  { name: 'conditions', title: 'Conditions', key: 'c', scopes: ['admin.read', 'platform.mutate'] },
  { name: 'keys', title: 'Keys', key: 'k', scopes: ['jobs.read'] },
  { name: 'types', title: 'Job types', key: 't', scopes: ['jobs.read'] },
  { name: 'agents', title: 'Agents', key: 'a', scopes: ['platform.read'] },
  { name: 'fleets', title: 'Fleets', key: 'f', scopes: ['platform.read'] },
  { name: 'audit', title: 'Audit trail', key: 'l', scopes: ['admin.read', 'platform.read'] },
  { name: 'settings', title: 'Settings', key: 's', scopes: ['jobs.read', 'platform.read'] },
];

/** Modules of the pages, by the first segment and by whether there is a second one. @type {Record<string, () => Promise<{ default: any }>>} */
const PAGES = {
  '': () => import('./pages/overview.js'),
  jobs: () => import('./pages/jobs.js'),
  'jobs/': () => import('./pages/job.js'),
  submit: () => import('./pages/submit.js'),
  groups: () => import('./pages/groups.js'),
  'groups/': () => import('./pages/group.js'),
  schedules: () => import('./pages/schedules.js'),
  'schedules/': () => import('./pages/schedules.js'),
  queues: () => import('./pages/queues.js'),
  'queues/': () => import('./pages/queue.js'),
  dead: () => import('./pages/dead.js'),
  conditions: () => import('./pages/conditions.js'),
  keys: () => import('./pages/keys.js'),
  'keys/': () => import('./pages/keys.js'),
  types: () => import('./pages/types.js'),
  'types/': () => import('./pages/types.js'),
  agents: () => import('./pages/agents.js'),
  'agents/': () => import('./pages/agent.js'),
  fleets: () => import('./pages/fleets.js'),
  audit: () => import('./pages/audit.js'),
  settings: () => import('./pages/settings.js'),
};

/** Milliseconds after the first view. */
const REST_MS = 1500;

function App() {
  const { phase, problem } = useStore(login);
  if (phase === 'starting') return html`<p class="boot" role="status">Logging in…</p>`;
  if (phase === 'out') return html`<${Welcome} problem=${problem} />`;
  return html`<${Frame} ended=${phase === 'ended'} />`;
}

/** @param {{ problem: string | null }} props */
function Welcome({ problem }) {
  return html`<main class="welcome">
    <h1>Joblane</h1>
    <p>See what runs, why the rest waits, and act.</p>
    ${problem && html`<p class="failure" role="alert">${problem}</p>`}
    <button type="button" class="primary" onClick=${begin} autofocus>Log in</button>
    <p class="about">${location.host}</p>
  </main>`;
}

/** @param {{ ended: boolean }} props */
function Frame({ ended }) {
  const at = useStore(route);
  const known = useStore(summary);
  const { error, refresh } = usePoll(readSummary, ended ? 0 : SUMMARY_MS, [ended]);
  const [menuOpen, setMenuOpen] = useState(false);
  const [helpOpen, setHelpOpen] = useState(false);
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const place = `${at.path.join('/')} ${at.query.get('next') ?? ''}`;
  useEffect(() => setMenuOpen(false), [place]);
  // A new page: its heading gets the focus, so that a screen reader says where one is. A heading that
  // comes later takes it from `main`.
  const first = useRef(true);
  useEffect(() => loadTheRest(known !== null), [known !== null]);
  useEffect(() => {
    if (!first.current) /** @type {HTMLElement | null | undefined} */ (main.current?.querySelector('h1') ?? main.current)?.focus();
    first.current = false;
    scrollTo(0, 0);
  }, [place]);
  const entries = MENU.filter((entry) => !known || canAny(...entry.scopes));
  // The same element until the address changes: new figures of the menu do not draw the page again.
  const page = useMemo(() => html`<${Page} key=${pageOf(at.path)} route=${at} />`, [at]);
  useKeys([
    ...entries.map((entry) => ({ keys: `g ${entry.key}`, what: `Go to ${entry.title}`, run: () => go(href(entry.name ? [entry.name] : [])) })),
    { keys: '/', what: 'Search', run: () => search(main.current) },
    ...(can('jobs.submit') ? [{ keys: 'n', what: 'New job', run: () => go(href(['submit'])) }] : []),
    { keys: 'u', what: 'Switch between local time and UTC', run: toggleUtc },
    { keys: '?', what: 'Show this list', run: () => setHelpOpen(true) },
  ]);
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the page</a>
    <div class="frame">
      <header class="side">
        <div class="brand"><a href="#/">Joblane</a>
          <button type="button" class="menu-button quiet" aria-expanded=${menuOpen} aria-controls="menu" onClick=${() => setMenuOpen(!menuOpen)}>Menu</button></div>
        <nav id="menu" class=${menuOpen ? 'open' : ''} aria-label="Pages">
          <ul>${entries.map((entry) => html`<li><a href=${href(entry.name ? [entry.name] : [])}
            aria-current=${(at.path[0] ?? '') === entry.name ? 'page' : undefined}>${entry.title}<${Count} name=${entry.name} /></a></li>`)}</ul>
          <${Reader} openHelp=${() => setHelpOpen(true)} />
        </nav>
      </header>
      <main id="main" ref=${main} tabindex="-1">
        <${Notices} ended=${ended} />
        ${known || ended ? page : html`<${Reading} error=${error} retry=${refresh} />`}
      </main>
    </div>
    ${helpOpen && html`<${Help} close=${() => setHelpOpen(false)} />`}
    <${Dialogs} />`;
}

/** Load the other pages once the first one is there, so that they come at once, and without a connection. @param {boolean} ready */
function loadTheRest(ready) {
  if (!ready) return undefined;
  const timer = setTimeout(() => Object.values(PAGES).forEach((load) => load().catch(() => undefined)), REST_MS);
  return () => clearTimeout(timer);
}

/** Put the focus on the search field of the page, or go to that of the jobs. @param {HTMLElement | null} main */
function search(main) {
  const field = /** @type {HTMLInputElement | null | undefined} */ (main?.querySelector('input[type=search]'));
  if (field) field.focus();
  else if (can('jobs.read')) go(href(['jobs'], { find: '1' }));
}

/** How many jobs need a look, beside an entry of the menu. @param {{ name: string }} props */
function Count({ name }) {
  const states = useStore(summary)?.jobs?.by_state;
  const count = name === 'dead' ? states?.dead : name === 'jobs' ? states?.active : 0;
  if (!count) return null;
  return html`<span class="count" title=${name === 'dead' ? `${count} dead` : `${count} active`}>${count}</span>`;
}

/** Who is logged in, the zone of times, and the way out. @param {{ openHelp: () => void }} props */
function Reader({ openHelp }) {
  const caller = useStore(summary)?.caller;
  const inUtc = useStore(utc);
  return html`<div class="reader">
    ${caller && html`<p><strong>${caller.name}</strong><br />${caller.role ?? 'no role'}${caller.tenant ? ` in ${caller.tenant}` : ''}</p>`}
    <p class="buttons">
      <button type="button" class="quiet" aria-pressed=${inUtc} onClick=${toggleUtc} title="Switch between local time and UTC">${zone(inUtc)}</button>
      <button type="button" class="quiet" onClick=${openHelp} title="Keyboard shortcuts (?)">Shortcuts</button>
      <button type="button" class="quiet" onClick=${logOut}>Log out</button>
    </p>
  </div>`;
}

/** What the reader must know on every page. @param {{ ended: boolean }} props */
function Notices({ ended }) {
  const { lostAt } = useStore(connection);
  const [trouble] = useStore(troubles);
  const inUtc = useStore(utc);
  return html`<div role="status" aria-live="polite">
    ${ended && html`<div class="notice warn"><p>Your login has ended. The page shows what was read until then.</p>
      <button type="button" class="primary" onClick=${begin}>Log in again</button></div>`}
    ${lostAt !== null && html`<div class="notice warn"><p>No connection to the API since ${clock(lostAt, inUtc)}. The page shows what it read until then, and goes on by itself.</p></div>`}
    ${!ended && lostAt === null && trouble && html`<div class="notice warn"><p>A part of this page is as of ${clock(trouble.since, inUtc)}; reading it again fails: ${trouble.error.message}</p></div>`}
  </div>`;
}

/** @param {string[]} path */
function pageOf(path) {
  const name = path[0] ?? '';
  return path.length > 1 ? `${name}/` : name;
}

/** The page of an address. @param {{ route: import('./router.js').Route }} props */
function Page({ route: at }) {
  const name = pageOf(at.path);
  const [View, setView] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState('');
  const known = useStore(summary);
  const scopes = MENU.find((entry) => entry.name === (at.path[0] ?? ''))?.scopes;
  const allowed = !known || !scopes || canAny(...scopes);
  const reachable = useStore(connection).lostAt === null;
  useEffect(() => {
    if (View) return undefined;
    let gone = false;
    const load = PAGES[name];
    setProblem('');
    if (!load) setProblem('There is no such page.');
    else {
      load().then(
        (module) => !gone && setView(() => module.default),
        () => !gone && setProblem(connection.value.lostAt === null
          ? 'This page could not be loaded. A new version may have been deployed: reload the console.'
          : 'This page cannot be loaded without a connection.'),
      );
    }
    return () => {
      gone = true;
    };
  }, [name, reachable]);
  if (!allowed) {
    return html`<${Head} title="Not allowed" />
      <section class="panel"><${Empty}><p>Your ${known?.caller.role ? `role ${known.caller.role}` : 'login'} may not see this page.</p>
        <p>It needs the scope ${scopes?.map((scope, n) => html`${n > 0 && ' or '}<code>${scope}</code>`)}.</p><//></section>`;
  }
  if (problem) {
    return html`<${Head} title=${PAGES[name] ? 'Not loaded' : 'Not found'} /><div class="failure" role="alert"><p>${problem}</p>
      <p><a href="#/">Overview</a> · <button type="button" onClick=${() => location.reload()}>Reload</button></p></div>`;
  }
  return View ? html`<${View} route=${at} />` : html`<${Loading} />`;
}

/** The keyboard shortcuts that work now. @param {{ close: () => void }} props */
function Help({ close }) {
  const dialog = useDialog();
  const all = useStore(shortcuts);
  const on = useStore(enabled);
  const unique = [...new Map(all.map((shortcut) => [shortcut.keys, shortcut])).values()];
  return html`<dialog ref=${dialog} aria-labelledby="help" onCancel=${close} onClose=${close}>
    <h2 id="help">Keyboard shortcuts</h2>
    <dl class="shortcuts">${unique.map((shortcut) => html`<div><dt>${shortcut.keys.split(' ').map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${shortcut.what}</dd></div>`)}</dl>
    <label class="line"><input type="checkbox" checked=${on} onChange=${toggleShortcuts} /> Shortcuts are on</label>
    <div class="actions"><button type="button" class="primary" onClick=${() => dialog.current?.close()} autofocus>Close</button></div>
  </dialog>`;
}

const root = document.getElementById('app');
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
  void start();
}
