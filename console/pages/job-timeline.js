/** The timeline of a job: bars by attempt, and each transition as a line of text. */

import { Badge, Section } from '../parts.js';
import { Sentence } from '../sentence.js';
import { clock, duration, now, utc, zone } from '../time.js';
import { rows, totals } from '../timeline.js';
import { html, useState, useStore } from '../view.js';

/** @typedef {import('../types').Job} Job */
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
      ${(whole ? all : all.slice(-FEW)).map((row) => html`<div class="bars-row" key=${row.attempt}>
        <span class="bars-name">${row.attempt}</span>
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
    <span><${Sentence} text=${step.reason} />${step.agent && html` <span class="about">on ${step.agent}${step.version && `, version ${step.version}`}</span>`}</span></li>`;
}
