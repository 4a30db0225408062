/** Placeholder. */
import { Head } from '../parts.js';
import { html } from '../view.js';

export default function Page() {
  return html`<${Head} title="keys" />`;
}
