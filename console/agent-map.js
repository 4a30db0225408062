/** The map of agents: a cell an agent, of a size by its threads and filled by what runs. */

import { aboutKind, KINDS, kindOf, sizeOf } from './agent-figures.js';
import { href } from './router.js';
import { html, useRef, useState } from './view.js';

/** @typedef {import('./types').AgentView} AgentView */

/** Up to so many agents have their name in the cell. */
const NAMED = 48;
/** Side of the cell of an agent with one thread: of up to ROOMY agents, and of more. */
const SIDE_REM = [1.6, 1.05];
const ROOMY = 200;

/**
 * Agents by group. One cell is in the order of the Tab key; arrows go from cell to cell.
 * @param {{ groups: readonly { name: string, agents: readonly AgentView[] }[] }} props
 */
export function AgentMap({ groups }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [at, setAt] = useState('');
  const all = groups.flatMap((group) => group.agents);
  const named = all.length <= NAMED;
  const first = all.some((agent) => agent.name === at) ? at : all[0]?.name;
  const shown = all.find((agent) => agent.name === at);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const cells = /** @type {HTMLElement[]} */ ([...(place.current?.querySelectorAll('a') ?? [])]);
    const from = cells.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = from < 0 ? null : cells[neighbour(cells.map((cell) => cell.getBoundingClientRect()), from, event.key)];
    if (!to || to === document.activeElement) return;
    event.preventDefault();
    to.focus();
  };
  return html`<div class=${`map ${named ? 'named' : ''}`} ref=${place} onKeyDown=${onKey} role="group" aria-label="Agents; arrow keys go from one to the next">
      ${groups.map((group) => html`<div key=${group.name}>
        ${group.name && html`<h3>${group.name} <span class="about">${group.agents.length}</span></h3>`}
        <div class="cells">${group.agents.map((agent) => html`<${Cell} key=${agent.name} agent=${agent} named=${named} side=${SIDE_REM[all.length > ROOMY ? 1 : 0]} inOrder=${agent.name === first} onAt=${setAt} />`)}</div>
      </div>`)}
    </div>
    ${!named && html`<p class="about readout">${shown ? sentence(shown) : 'Point at a cell, or go to it with the arrow keys, to see which agent it is.'}</p>`}`;
}

/** @param {{ agent: AgentView, named: boolean, side: number, inOrder: boolean, onAt: (name: string) => void }} props */
function Cell({ agent, named, side: rem, inOrder, onAt }) {
  const kind = kindOf(agent);
  const side = `${(sizeOf(agent.threads) * rem).toFixed(2)}rem`;
  const share = agent.threads > 0 ? Math.min(1, agent.running / agent.threads) : 0;
  const point = () => onAt(agent.name);
  return html`<a class=${`cell kind-${kind}`} href=${href(['agents', agent.name])} tabindex=${inOrder ? 0 : -1} aria-label=${named ? undefined : sentence(agent)} title=${sentence(agent)}
    onFocus=${point} onMouseEnter=${point} style=${named ? {} : { width: side, height: side }}>
    <span class="fill" style=${named ? { width: `${share * 100}%` } : { height: `${share * 100}%` }}></span>
    <span class="sign" aria-hidden="true">${aboutKind(kind).sign}</span>
    ${named && html`<span class="cell-text"><strong>${agent.name}</strong><span>${kind === 'leaving' ? agent.state : aboutKind(kind).name}, ${agent.running} of ${agent.threads}</span></span>`}
  </a>`;
}

/** What the colours and signs mean, with the number of agents; each switches its filter. @param {{ counts: Record<string, number>, kind: string, onKind: (kind: string) => void }} props */
export function Legend({ counts, kind, onKind }) {
  return html`<div class="chips" role="group" aria-label="Show agents by what they do">
    ${KINDS.map((each) => html`<button type="button" class=${`kind-chip kind-${each.kind}`} aria-pressed=${kind === each.kind} title=${each.means}
      onClick=${() => onKind(kind === each.kind ? '' : each.kind)}><span class="sign" aria-hidden="true">${each.sign}</span> ${each.name} <strong>${counts[each.kind] ?? 0}</strong></button>`)}
  </div>`;
}

/** @param {AgentView} agent */
function sentence(agent) {
  const kind = aboutKind(kindOf(agent));
  return `${agent.name}: ${kind.name}, ${agent.running} of ${agent.threads} slots in use, ${agent.queues.join(' ')}${agent.trouble ? `. ${agent.trouble}` : ''}`;
}

/**
 * The cell that a key leads to. Cells of a row stand on the same line.
 * @param {readonly { left: number, width: number, bottom: number }[]} cells  In their order.
 * @param {number} from
 * @param {string} key  As in KeyboardEvent.key.
 * @returns {number}
 */
export function neighbour(cells, from, key) {
  const last = cells.length - 1;
  if (key === 'ArrowRight') return Math.min(last, from + 1);
  if (key === 'ArrowLeft') return Math.max(0, from - 1);
  if (key === 'Home') return 0;
  if (key === 'End') return last;
  const here = cells[from];
  if ((key !== 'ArrowDown' && key !== 'ArrowUp') || !here) return from;
  const way = key === 'ArrowDown' ? 1 : -1;
  const line = Math.min(...cells.map((cell) => (cell.bottom - here.bottom) * way).filter((distance) => distance > 4));
  let best = from;
  let least = Infinity;
  for (const [n, cell] of cells.entries()) {
    const aside = Math.abs(cell.left + cell.width / 2 - here.left - here.width / 2);
    if (Math.abs((cell.bottom - here.bottom) * way - line) <= 4 && aside < least) [best, least] = [n, aside];
  }
  return best;
}
