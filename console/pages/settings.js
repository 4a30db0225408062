/** Who is logged in, what they may do, the limits of their tenant, and preferences of this browser. */

import { BASE } from '../auth.js';
import { enabled, toggleShortcuts } from '../keys.js';
import { Copy, Facts, Head, Loading, Meter, Section, Table, Time } from '../parts.js';
import { href } from '../router.js';
import { summary } from '../session.js';
import { toggleUtc, utc, zone } from '../time.js';
import { html, useStore } from '../view.js';

/** @typedef {import('../session.js').Summary} Summary */
/** @typedef {import('../types').LimitView} Limit */

/** What each scope allows. @type {Record<import('../session.js').Scope, string>} */
const SCOPES = {
  'jobs.read': 'Read jobs, their logs, and queues',
  'jobs.submit': 'Submit and restart jobs',
  'jobs.cancel': 'Cancel, hide and delete jobs',
  'admin.read': 'Read conditions, dead jobs and the audit trail',
  'admin.mutate': 'Change the tenant’s own queues and applications, retry dead jobs',
  'platform.read': 'Read agents, all queues, and the audit trail of the role platform',
  'platform.mutate': 'Change all queues, drain agents, declare applications for all tenants',
};

/** What each limit counts. @type {Record<Limit['limit'], string>} */
const LIMITS = {
  jobs_running: 'Jobs that run at once',
  jobs_waiting: 'Jobs that wait: scheduled, pending, between two attempts, or blocked',
  recovery_executions: 'Conditions of the tenant’s jobs that are tested at once',
  output_mb_per_job: 'Output of all attempts of a job, in MiB',
  output_mb_per_day: 'Output of all jobs of a day (UTC), in MiB',
  input_mb_per_job: 'Input files of a job, in MiB',
  upload_mb_per_day: 'Input files and bundles whose upload was prepared on a day (UTC), in MiB',
  output_files_mb_per_job: 'Output files of all attempts of a job, in MiB',
  output_files_mb_per_day: 'Output files of all jobs of a day (UTC), in MiB',
  output_files_per_job: 'Number of output files of an attempt',
};

export default function Page() {
  const known = useStore(summary);
  if (!known) return html`<${Loading} />`;
  const url = BASE.href.replace(/\/$/, '');
  const { caller } = known;
  return html`
    <${Head} title="Settings" about=${`Deployment ${known.deployment}, version ${known.version}`} />
    <div class="grid">
      <${Section} title="You">
        <${Facts} entries=${[
          ['Name', `${caller.name}${caller.kind === 'machine' ? ' (machine)' : ''}`],
          ['Tenant', caller.tenant ?? 'none: the role platform belongs to the deployment'],
          ['Role', caller.role ?? 'none: the token gives the scopes'],
        ]} />
        <h3>What you may do</h3>
        <ul class="scopes">${caller.scopes.map((scope) => html`<li><span aria-hidden="true">✓</span><span>${SCOPES[scope] ?? scope} <code>${scope}</code></span></li>`)}</ul>
      <//>
      <div class="stack">
      <${Preferences} />
      <${Section} title="Command line">
        <p>The command line does all that the console does, and more:</p>
        <pre class="code" tabindex="0">joblane --url ${url} login${'\n'}joblane ls --state failed${'\n'}joblane run -- echo hello</pre>
        <p>Address of the API: <code>${url}</code> <${Copy} text=${url} what="the address of the API" /></p>
        <p>Its description: <a href=${new URL('v1/openapi.json', BASE).href}>openapi.json</a></p>
      <//>
      </div>
    </div>
    ${known.limits.length > 0 && html`<${Limits} limits=${known.limits} />`}
    ${known.jobs && html`<${Section} title="How true the figures are">
      <p>Jobs are counted from their changes, some seconds late; last at <${Time} at=${known.jobs.counted_at} full />. Agents report every ten seconds. Lists and jobs themselves are read when you look at them.</p>
    <//>`}
    ${known.links.length > 0 && html`<${Section} title="Links to other systems">
      <${Facts} entries=${known.links.map((link) => [link.name, html`<code>${link.template}</code>`])} />
    <//>`}`;
}

/** @param {{ limits: Limit[] }} props */
function Limits({ limits }) {
  return html`<${Section} title="Limits of your tenant">
    <${Table} caption="Limits of your tenant" rows=${limits} id=${(/** @type {Limit} */ each) => each.limit} columns=${[
      { name: 'Limit', className: 'wide', cell: (/** @type {Limit} */ each) => html`${LIMITS[each.limit] ?? each.limit}<div class="about"><code>${each.limit}</code></div>` },
      { name: 'Now', cell: (/** @type {Limit} */ each) => (each.current === null
        ? html`<span class="none">not counted</span>` : html`<${Meter} value=${each.current} most=${each.allowed} label=${LIMITS[each.limit] ?? each.limit} />`) },
      { name: 'Allowed', className: 'number', cell: (/** @type {Limit} */ each) => each.allowed.toLocaleString('en') },
    ]} />
    <p class="about">They are set in <code>[limits]</code> and <code>[tenants.NAME.limits]</code> of joblane.toml.</p>
  <//>`;
}

function Preferences() {
  const inUtc = useStore(utc);
  const keys = useStore(enabled);
  return html`<${Section} title="Preferences of this browser">
    <ul class="choices">
      <li><label class="line"><input type="checkbox" checked=${inUtc} onChange=${toggleUtc} /> Show times in UTC</label>
        <p class="about">Otherwise in ${zone(false)}. The other one is shown when you point at a time.</p></li>
      <li><label class="line"><input type="checkbox" checked=${keys} onChange=${toggleShortcuts} /> Keyboard shortcuts</label>
        <p class="about">Single keys, such as <kbd>j</kbd> for the next row. <kbd>?</kbd> lists them.</p></li>
    </ul>
    <p class="about">Light or dark, and motion, follow your system. Log lines are wrapped or not on the page of <a href=${href(['jobs'])}>each job</a>.</p>
  <//>`;
}
