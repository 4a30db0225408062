/** Output files of a job: how many, what is missing, and a list to download them from. */

import { path } from '../api.js';
import { PAGE, readList } from '../lists.js';
import { Failure, Section, Table } from '../parts.js';
import { usePoll } from '../poll.js';
import { bytes } from '../time.js';
import { html, useState } from '../view.js';

/** @typedef {import('../types').Job} Job */
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
