/** The output of a job: live, with search, colours, and a file of it. */

import { cut, search } from '../log-lines.js';
import { OutputReader, readWhole } from '../log-reader.js';
import { perform } from '../dialogs.js';
import { valueOf } from '../fields.js';
import { useKeys } from '../keys.js';
import { Failure, Section } from '../parts.js';
import { clock, utc } from '../time.js';
import { html, useCallback, useEffect, useMemo, useRef, useState, useStore } from '../view.js';

/** @typedef {import('../types').Job} Job */
/** @typedef {import('../log-lines.js').Block} Block */
/** @typedef {import('../log-lines.js').Line} Line */
/** @typedef {import('../log-lines.js').Range} Range */

/** What stands before a line, so that neither stream nor level is told by its colour alone. @type {Record<string, string>} */
const MARKS = { stderr: 'err', joblane: 'info', debug: 'debug', info: 'info', warning: 'warning', error: 'error', critical: 'critical' };

const LEVELS = ['debug', 'info', 'warning', 'error', 'critical'];

/** What a preference is kept under. @param {string} name */
const kept = (name) => `joblane.output.${name}`;

/**
 * A choice that is kept in this browser.
 * @param {string} name
 * @param {boolean} first
 * @returns {[boolean, () => void]}
 */
function useChoice(name, first) {
  const [on, set] = useState((localStorage.getItem(kept(name)) ?? (first ? '1' : '0')) === '1');
  return [on, () => {
    set(!on);
    localStorage.setItem(kept(name), on ? '0' : '1');
  }];
}

/** @param {string} id @param {string} level @param {boolean} active @param {boolean} ended */
function useOutput(id, level, active, ended) {
  const [, redraw] = useState(0);
  const reader = useRef(/** @type {OutputReader | null} */ (null));
  useEffect(() => {
    const mine = new OutputReader(id, level, () => redraw((n) => n + 1));
    reader.current = mine;
    mine.know({ active, ended });
    mine.open({ wholly: level !== '' });
    return () => mine.close();
  }, [id, level]);
  useEffect(() => reader.current?.know({ active, ended }), [active, ended]);
  return reader.current;
}

/** @param {{ job: Job, ended: boolean }} props */
export function Output({ job, ended }) {
  const [level, setLevel] = useState('');
  const output = useOutput(job.id, level, job.state === 'active', ended);
  const [follow, setFollow] = useState(!ended);
  const [wrap, toggleWrap] = useChoice('wrap', true);
  const [times, toggleTimes] = useChoice('times', false);
  const [sought, setSought] = useState('');
  const [at, setAt] = useState(0);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const lines = output?.lines;
  const blocks = lines?.blocks ?? [];
  const counts = sought ? blocks.map((block) => search(block, sought).count) : [];
  const total = counts.reduce((sum, count) => sum + count, 0);
  const current = total ? ((at % total) + total) % total : 0;
  useFollow(box, follow, setFollow, [lines?.read, lines, wrap, times]);

  // The match that is shown: scroll to it.
  useEffect(() => {
    if (!sought || !total) return;
    setFollow(false);
    box.current?.querySelector('mark.current')?.scrollIntoView({ block: 'center' });
  }, [current, sought, total > 0]);

  const step = (/** @type {number} */ by) => setAt(current + by);
  useKeys([
    { keys: 'f', what: 'Follow the output, or stop following', run: () => setFollow(!follow) },
    { keys: 's', what: 'Search the output', run: () => field.current?.focus() },
    { keys: 'w', what: 'Wrap long lines, or not', run: toggleWrap },
  ]);
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key === 'Enter') {
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') setSought('');
  };
  let before = 0;
  return html`<${Section} title="Output" className="output" actions=${html`
      <div class="find">
        <input type="text" ref=${field} aria-label="Search the output" placeholder="Search the output" value=${sought} onKeyDown=${onKey}
          onInput=${(/** @type {InputEvent} */ event) => { setAt(0); setSought(/** @type {HTMLInputElement} */ (event.target).value); }} />
        <span role="status" class="about">${sought && (total ? `${current + 1} of ${total}` : 'not found')}</span>
        ${total > 1 && html`<button type="button" class="quiet" aria-label="Previous match" onClick=${() => step(-1)}>↑</button>
          <button type="button" class="quiet" aria-label="Next match" onClick=${() => step(1)}>↓</button>`}
      </div>
      ${job.type && html`<select aria-label="Level" value=${level} onChange=${(/** @type {Event} */ event) => setLevel(valueOf(event))}>
        <option value="">All output</option>${LEVELS.map((each) => html`<option value=${each}>${each} and above</option>`)}</select>`}
      <button type="button" aria-pressed=${follow} onClick=${() => setFollow(!follow)}>Follow</button>
      <button type="button" aria-pressed=${wrap} onClick=${toggleWrap}>Wrap</button>
      <button type="button" aria-pressed=${times} onClick=${toggleTimes}>Times</button>
      <${Files} id=${job.id} text=${() => lines?.text() ?? ''} />`}>
    ${output?.error && html`<${Failure} error=${output.error} />`}
    ${output?.earlier && html`<p class="about bar">These are the last lines.
      <button type="button" onClick=${() => { setFollow(false); output.open({ wholly: true }); }}>Show from the beginning</button></p>`}
    ${lines && lines.dropped > 0 && html`<p class="about">The first ${lines.dropped} of these lines were left out here. The file has all of them.</p>`}
    <div ref=${box} class=${`lines ${wrap ? 'wrap' : ''}`} tabindex="0" role="region" aria-label="Output">
      ${blocks.map((block, n) => {
        const mine = sought ? search(block, sought) : null;
        const first = before;
        before += counts[n] ?? 0;
        const inside = mine && current >= first && current < before ? current - first : -1;
        return html`<${Lines} key=${block.key} block=${block} version=${block.version} found=${mine?.found ?? null} current=${inside} times=${times} numbers=${!output?.earlier && !level}
          previous=${blocks[n - 1]?.lines.at(-1)} />`;
      })}
      ${output?.begun && !lines?.count && html`<p class="about">${level ? `No output of the level ${level} or above${ended ? '' : ' yet'}.` : silence(job, ended)}</p>`}
      ${!output?.begun && !output?.error && html`<p class="about" role="status">Reading…</p>`}
    </div>
    ${output?.paused && html`<p class="about bar">The first ${lines?.read} lines.
      <button type="button" onClick=${() => output.more()}>Read on</button></p>`}
  <//>`;
}

/** Why there is no output. @param {Job} job @param {boolean} ended */
function silence(job, ended) {
  if (ended) return 'It wrote no output.';
  return job.state === 'active' ? 'No output yet.' : 'It has not started. Its output appears here.';
}

/**
 * Keep the end in view while `follow` is on. Scrolling up turns it off, and reaching the end on.
 * @param {{ current: HTMLDivElement | null }} box
 * @param {boolean} follow
 * @param {(on: boolean) => void} setFollow
 * @param {unknown[]} deps
 */
function useFollow(box, follow, setFollow, deps) {
  const last = useRef(0);
  const on = useRef(follow);
  on.current = follow;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const scrolled = () => {
      const away = element.scrollHeight - element.clientHeight - element.scrollTop;
      if (on.current && element.scrollTop < last.current - 4 && away > 40) setFollow(false);
      last.current = element.scrollTop;
    };
    element.addEventListener('scroll', scrolled, { passive: true });
    return () => element.removeEventListener('scroll', scrolled);
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!follow || !element) return;
    last.current = 0;
    element.scrollTop = element.scrollHeight;
    // The heights of blocks that were never in view are estimates until they are.
    requestAnimationFrame(() => {
      if (on.current) element.scrollTop = element.scrollHeight;
    });
  }, [follow, ...deps]);
}

/**
 * The lines of a block; drawn again only if something of it has changed.
 * @param {{ block: Block, version: number, found: Map<number, Range[]> | null, current: number, times: boolean, numbers: boolean, previous: Line | undefined }} props
 */
function Lines({ block, version, found, current, times, numbers, previous }) {
  const inUtc = useStore(utc);
  return useMemo(() => {
    let before = previous;
    let seen = 0;
    return html`<div class="block" style=${{ containIntrinsicSize: `auto ${block.lines.length * 20}px` }}>${block.lines.map((line) => {
      const begins = before ? line.epoch !== before.epoch : line.attempt > 1;
      const again = before?.attempt === line.attempt ? ', started again' : '';
      before = line;
      const kind = line.stream === 'joblane' ? line.stream : line.level ?? line.stream;
      const ranges = found?.get(line.n);
      const own = current - seen;
      seen += ranges?.length ?? 0;
      return html`${begins && html`<div class="attempt" key=${`a${line.n}`}>Attempt ${line.attempt}${again}</div>`}
        <div key=${line.n} class=${`line ${kind}`}>${numbers && html`<span class="gutter">${line.n}</span>`}${times && html`<span class="gutter">${clock(line.time, inUtc).slice(11)}</span>`}${
          MARKS[kind] && html`<span class="stream">${MARKS[kind]}</span>`}<span class="said"><${Said} line=${line} ranges=${ranges} current=${own} /></span></div>`;
    })}</div>`;
  }, [block, version, found, current, times, numbers, inUtc, previous?.epoch, previous?.attempt]);
}

/** What a line says. @param {{ line: Line, ranges: Range[] | undefined, current: number }} props */
function Said({ line, ranges, current }) {
  if (!ranges) return line.parts.map((part) => (part.look ? html`<span class=${part.look}>${part.text}</span>` : part.text));
  return cut(line.parts, ranges).map((piece) => {
    if (piece.range < 0) return piece.look ? html`<span class=${piece.look}>${piece.text}</span>` : piece.text;
    return html`<mark class=${piece.range === current ? 'current' : ''}>${piece.text}</mark>`;
  });
}

/** Copy what is shown; download all of it. @param {{ id: string, text: () => string }} props */
function Files({ id, text }) {
  const [count, setCount] = useState(-1);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), [id]);
  const copy = useCallback(() => perform('Output copied', () => navigator.clipboard.writeText(text())), [text]);
  const save = async () => {
    stop.current = new AbortController();
    setCount(0);
    await perform('Output downloaded', async () => {
      const url = URL.createObjectURL(await readWhole(id, setCount, stop.current.signal));
      const link = document.createElement('a');
      link.href = url;
      link.download = `${id}.log`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    });
    setCount(-1);
  };
  return html`
    <button type="button" onClick=${copy}>Copy</button>
    <button type="button" onClick=${save} disabled=${count >= 0}>${count > 0 ? `${count} lines…` : 'Download'}</button>`;
}
