/** Fleets: the Auto Scaling groups that agents run on, and what scaling did. */

import { call } from '../api.js';
import { Empty, Facts, Head, Meter, Reading, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { href } from '../router.js';
import { Sentence } from '../sentence.js';
import { html, useState } from '../view.js';

/** Scaling activities that are shown at first. */
const FEW = 6;

/** Codes of reasons that need nobody: what they tell of comes by itself. */
const COMES = new Set(['fleet_booting', 'fleet_not_raised', 'fleet_max']);

/** @typedef {import('../types').FleetView} Fleet */
/** @typedef {import('../types').ScalingActivityView} Activity */

export default function Page() {
  const { data, error, refresh } = usePoll(
    (signal) => /** @type {Promise<import('../types').FleetPage>} */ (call('GET', 'v1/fleets', { signal })), 15_000, []);
  return html`
    <${Head} title="Fleets" about="Groups of EC2 instances that agents run on, as joblane.toml declares them." />
    ${!data && html`<${Reading} error=${error} retry=${refresh} />`}
    ${data && !data.entries.length && html`<${Section} title="No fleets"><${Empty}><p>joblane.toml declares no fleet, so agents run only where somebody starts them.</p>
      <p>To have instances started for you, add this and deploy again:</p>
      <pre class="sample">${'[fleets.main]\nqueues = ["default"]\ninstance_types = ["c7g.large"]\nmin_size = 0\nmax_size = 4'}</pre><//><//>`}
    ${data?.entries.map((fleet) => html`<${FleetPanel} key=${fleet.name} fleet=${fleet} />`)}`;
}

/** @param {{ fleet: Fleet }} props */
function FleetPanel({ fleet }) {
  const { desired, in_service: inService } = fleet;
  const starting = desired !== null && inService !== null ? desired - inService : 0;
  const last = fleet.activities[0];
  const decision = fleet.decision;
  return html`<${Section} title=${`Fleet ${fleet.name}`} actions=${html`<a href=${href(['agents'])}>Agents</a>`}>
    ${fleet.note && html`<div class="notice"><p>${fleet.note}</p></div>`}
    ${last && isFailed(last) && html`<div class="notice bad"><p><strong>The last scaling activity failed</strong> <${Time} at=${last.at} />: ${last.cause || last.description}</p></div>`}
    ${decision?.reasons.map((reason) => html`<div key=${reason.code} class=${COMES.has(reason.code) ? 'notice' : 'notice bad'}><p><${Sentence} text=${reason.text} /></p></div>`)}
    <${Facts} entries=${[
      ['Instances in service', inService === null || desired === null ? 'unknown' : html`<${Meter} value=${inService} most=${desired} label=${`Instances of ${fleet.name} in service`} /> desired`],
      ['On their way', starting > 0 ? `${starting} to start` : starting < 0 ? `${-starting} to end` : null],
      ['Agents', decision && `${decision.alive} take jobs, ${decision.busy} have some, ${decision.booting} to come`],
      ['Jobs', decision && html`${decision.backlog} wait for this fleet, ${decision.wanted - decision.backlog} run, as of <${Time} at=${decision.at} />`],
      ['More were asked for', decision?.raised_at && html`<${Time} at=${decision.raised_at} />`],
      ['Limits', `${fleet.min_size} to ${fleet.max_size} instances`],
      ['Queues', html`<span class="chips">${fleet.queues.map((queue) => html`<a href=${href(['queues', queue])}>${queue}</a>`)}</span>`],
      ['Instance types', fleet.instance_types.map((type) => (fleet.price_per_hour[type] === undefined ? type : `${type} (${fleet.price_per_hour[type]} USD/h)`)).join(', ')],
      ['Architecture', fleet.architecture],
      ['Image', fleet.ami ?? 'the newest of Amazon Linux 2023'],
      ['Packages', fleet.packages.join(', ') || null],
      ['Setup', fleet.setup],
    ]} />
    ${fleet.activities.length > 0 && html`<h3 class="gap">Scaling activity</h3><${Activities} fleet=${fleet} />`}
  <//>`;
}

/** @param {Activity} activity */
function isFailed({ status }) {
  return /fail|cancel/i.test(status);
}

/** @param {{ fleet: Fleet }} props */
function Activities({ fleet }) {
  const [all, setAll] = useState(false);
  /** @type {import('../parts.js').Column<Activity>[]} */
  const columns = [
    { name: 'When', className: 'name', cell: (activity) => html`<${Time} at=${activity.at} />` },
    { name: 'Status', cell: (activity) => html`<span class=${`badge ${isFailed(activity) ? 'is-failed' : /^success/i.test(activity.status) ? 'is-ready' : 'is-active'}`}><span aria-hidden="true">${isFailed(activity) ? '✕' : /^success/i.test(activity.status) ? '✓' : '●'}</span> ${activity.status}</span>` },
    { name: 'What', className: 'wide', cell: (activity) => activity.description },
    { name: 'Why', className: 'wide minor', cell: (activity) => activity.cause ?? '' },
  ];
  const shown = all ? fleet.activities : fleet.activities.slice(0, FEW);
  return html`<${Table} caption=${`Scaling activity of fleet ${fleet.name}, newest first`} columns=${columns} rows=${shown} id=${(/** @type {Activity} */ activity) => `${activity.at} ${activity.description}`} />
    ${shown.length < fleet.activities.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${fleet.activities.length}</button>`}`;
}
