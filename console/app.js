/** Starts the console. */

import htm from './vendor/htm.js';
import { h, render } from './vendor/preact.js';

const html = htm.bind(h);

const root = document.getElementById('app');
if (root) {
  render(html`<h1>Joblane</h1>`, root);
}
