/** Sentences of the API: times in the reader's zone, and ids of jobs as links. */

import { Time } from './parts.js';
import { href } from './router.js';
import { html } from './view.js';

const MARKS = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b)/;

/**
 * The pieces of a sentence: every second one is a time or an id.
 * @param {string} text
 */
export function piecesOf(text) {
  return text.split(MARKS);
}

/** @param {{ text: string, links?: boolean }} props  Without `links` within what is a link itself. */
export function Sentence({ text, links = true }) {
  return piecesOf(text).map((piece, n) => {
    if (n % 2 === 0) return piece;
    if (piece.includes('T') && piece.endsWith('Z')) return html`<${Time} at=${piece} full=${true} />`;
    return links ? html`<a href=${href(['jobs', piece])}><code>${piece}</code></a>` : piece;
  });
}
