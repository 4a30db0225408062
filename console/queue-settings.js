/** Settings of a queue: who may change them, and how a change meets one of somebody else. */

import { ApiError, call, path } from './api.js';
import { confirm, say } from './dialogs.js';
import { valueOf } from './fields.js';
import { Facts, Section } from './parts.js';
import { can } from './session.js';
import { duration } from './time.js';
import { html, useState } from './view.js';

/** @typedef {import('./types').QueueView} QueueView */
/** @typedef {import('./types').SettingsView} SettingsView */
/** @typedef {{ run_jobs: boolean, threads: number | null, cluster_threads: number | null }} Settings */

/** Whether the reader may change the settings of a queue: one that other tenants use, too, needs the role platform. @param {QueueView} queue */
export function mayChange(queue) {
  return can('platform.mutate') || (can('admin.mutate') && queue.settings.may_change);
}

/**
 * Change some settings of a queue; all others stay as the reader saw them. Whether it was done.
 * @param {QueueView} queue  As the reader saw it: a later change of somebody else refuses this one.
 * @param {Partial<Settings>} change
 * @param {string | null} reason
 * @param {string} done  What to say then.
 * @param {() => void} refresh
 */
export async function changeSettings(queue, change, reason, done, refresh) {
  const { run_jobs, threads, cluster_threads, version } = queue.settings;
  const where = path`v1/queues/${queue.name}/settings`;
  try {
    await call('PUT', where, { body: { run_jobs, threads, cluster_threads, ...change, reason }, headers: { 'If-Match': `"${version}"` } });
    say(done);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 412) {
      const now = await /** @type {Promise<SettingsView>} */ (call('GET', where)).catch(() => null);
      say(`Nothing was changed: somebody else has changed the settings of ${queue.name} since you saw them.${now ? ` They are now: ${sentence(now)}.` : ''} Look at them and decide again.`, 'bad');
    } else {
      say(error instanceof Error ? error.message : String(error), 'bad');
    }
    return false;
  } finally {
    refresh();
  }
}

/** @param {SettingsView} settings */
export function sentence({ run_jobs, threads, threads_declared, cluster_threads, changed_by }) {
  const all = cluster_threads === null ? 'no limit on all agents together' : `at most ${cluster_threads} on all agents together`;
  return `${run_jobs ? 'runs jobs' : 'paused'}, at most ${threads ?? threads_declared} jobs on an agent, ${all}${changed_by ? ` (changed by ${changed_by})` : ''}`;
}

/** The limits of a queue, and a form for those who may change them. @param {{ queue: QueueView, refresh: () => void }} props */
export function Limits({ queue, refresh }) {
  const { settings } = queue;
  const [draft, setDraft] = useState(/** @type {{ threads: string, cluster: string, from: QueueView } | null} */ (null));
  const facts = html`<${Facts} entries=${[
    ['Jobs on one agent', settings.threads === null ? `${settings.threads_declared}, as joblane.toml declares` : `${settings.threads} (joblane.toml declares ${settings.threads_declared})`],
    ['Jobs on all agents', settings.cluster_threads ?? 'no limit'],
    ['Deadline of new jobs', queue.deadline_s && `${duration(queue.deadline_s)} after submission, as joblane.toml declares`],
  ]} />`;
  if (!mayChange(queue)) {
    return html`<${Section} title="Limits">${facts}<p class="about">${can('admin.mutate') ? 'Other tenants may use this queue, too: its settings need the role platform.' : 'Your role does not change settings of queues.'}</p><//>`;
  }
  if (!draft) {
    const begin = () => setDraft({ threads: text(settings.threads), cluster: text(settings.cluster_threads), from: queue });
    return html`<${Section} title="Limits" actions=${html`<button type="button" onClick=${begin}>Change limits</button>`}>${facts}<p class="about">Agents apply a change within 20 s. A lower limit stops no running job.</p><//>`;
  }
  const outdated = draft.from.settings.version !== settings.version;
  const apply = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const change = { threads: number(draft.threads), cluster_threads: number(draft.cluster) };
    const answer = await confirm({
      title: `Change the limits of queue ${queue.name}?`, action: 'Change limits', reason: true,
      text: html`<p>Now: ${sentence(draft.from.settings)}.</p><p>Then: ${sentence({ ...draft.from.settings, ...change, changed_by: null })}.</p>`,
    });
    if (answer && (await changeSettings(draft.from, change, answer.reason, `Limits of ${queue.name} changed`, refresh))) setDraft(null);
  };
  return html`<${Section} title="Limits"><form class="short" onSubmit=${apply}>
    ${outdated && html`<div class="notice warn" role="alert"><p>Somebody has changed the settings since you began: ${sentence(settings)}.</p>
      <button type="button" onClick=${() => setDraft({ threads: text(settings.threads), cluster: text(settings.cluster_threads), from: queue })}>Begin with these</button></div>`}
    <label>Jobs on one agent at once
      <input type="number" min="0" max="1000" step="1" value=${draft.threads} placeholder=${`${settings.threads_declared}, as joblane.toml declares`}
        onInput=${(/** @type {Event} */ event) => setDraft({ ...draft, threads: valueOf(event) })} /></label>
    <label>Jobs on all agents at once
      <input type="number" min="0" max="1000000" step="1" value=${draft.cluster} placeholder="no limit"
        onInput=${(/** @type {Event} */ event) => setDraft({ ...draft, cluster: valueOf(event) })} /></label>
    <p class="actions"><button type="submit" class="primary">Save</button><button type="button" onClick=${() => setDraft(null)}>Back</button></p>
  </form><//>`;
}

/** @param {number | null} value */
function text(value) {
  return value === null ? '' : String(value);
}

/** @param {string} value */
function number(value) {
  return value.trim() === '' ? null : Number(value);
}
