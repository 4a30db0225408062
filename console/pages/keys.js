/** Keys: how many jobs run at once under each, who has a slot, and who waits for one. */

import { call, path } from '../api.js';
import { confirm, say } from '../dialogs.js';
import { valueOf } from '../fields.js';
import { useList } from '../lists.js';
import { Badge, Empty, Facts, Head, Id, Meter, Pager, Reading, Section, Table, Time } from '../parts.js';
import { usePoll } from '../poll.js';
import { go, href } from '../router.js';
import { parseSegments, showSegments, written } from '../segments.js';
import { Sentence } from '../sentence.js';
import { can } from '../session.js';
import { html, useEffect, useState } from '../view.js';

/** @typedef {import('../types').KeyView} Key */
/** @typedef {import('../types').KeyDetail} Detail */
/** @typedef {import('../types').KeyHolder} Holder */
/** @typedef {import('../types').KeyWaiter} Waiter */
/** @typedef {import('../types').TypePage} Types */
/** @typedef {import('../router.js').Route} Route */

/** @type {Record<Key['when_full'], string>} */
const WHEN_FULL = {
  reject: 'another job is refused',
  coalesce: 'another job is not made; the one that is there counts',
  'replace-oldest': 'the job that waits longest is skipped for the new one',
};

/** @type {Record<Key['stale_policy'], string>} */
const STALE = {
  block: 'runs again in the same slot',
  'fail-stale': 'ends as stale if another job waits',
};

/** @param {{ route: Route }} props */
export default function Page({ route }) {
  const [, type, id] = route.path;
  return type && id ? html`<${One} type=${type} id=${id} />` : html`<${List} route=${route} type=${type ?? null} />`;
}

/** @param {{ route: Route, type: string | null }} props */
function List({ route, type }) {
  const types = usePoll((signal) => /** @type {Promise<Types>} */ (call('GET', 'v1/types', { signal })), 60_000, []);
  const keyed = (types.data?.entries ?? []).filter((each) => each.key).map((each) => each.type);
  const scope = type ?? route.query.get('type') ?? 'command';
  const known = [...new Set(['command', ...keyed, scope])];
  return html`
    <${Head} title="Keys" about="A key limits how many of its jobs run at once; the others wait for a slot." />
    <div class="tabs" role="navigation" aria-label="Whose keys">
      ${known.map((each) => html`<a href=${href(['keys'], { type: each })} aria-current=${each === scope ? 'page' : undefined}>${each === 'command' ? 'Commands' : each}</a>`)}
    </div>
    <${Find} scope=${scope} route=${route} />
    <${Keys} scope=${scope} route=${route} />`;
}

/** The fields that choose the scope and the segments. @param {{ scope: string, route: Route }} props */
function Find({ scope, route }) {
  const [of, setOf] = useState(scope);
  const [segments, setSegments] = useState(() => showSegments(route.query.get('segments')));
  useEffect(() => {
    setOf(scope);
    setSegments(showSegments(route.query.get('segments')));
  }, [scope, route.query.toString()]);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    go(href(['keys'], { type: of.trim(), segments: parseSegments(segments) }));
  };
  return html`<form onSubmit=${submit}><div class="bar">
    <label>Job type, “command” or policy.NAME<input type="text" required value=${of} spellcheck=${false} autocapitalize="none" onInput=${(/** @type {Event} */ event) => setOf(valueOf(event))} /></label>
    <label>Only this key<input type="search" value=${segments} placeholder="customer / acme" spellcheck=${false} autocapitalize="none"
      title='Segments, separated by slashes, such as customer / "7"; or a JSON array, such as ["customer", "7"]' onInput=${(/** @type {Event} */ event) => setSegments(valueOf(event))} /></label>
    <button type="submit">Show</button>
  </div></form>`;
}

/** @param {{ scope: string, route: Route }} props */
function Keys({ scope, route }) {
  const segments = route.query.get('segments');
  const { data, error, refresh } = useList(path`v1/keys/${scope}`, { segments, next: route.query.get('next') }, { most: 50 });
  if (!data) return html`<${Reading} error=${error} retry=${refresh} />`;
  const rows = /** @type {Key[]} */ (data.entries);
  return html`<section class="panel">
    ${!rows.length && !route.query.has('next') && html`<${Empty}>${segments
      ? html`<p>No job has the key ${showSegments(segments)}, and none waits for it.</p>`
      : html`<p>No job of ${scope === 'command' ? 'a command' : html`<code>${scope}</code>`} has a key now.</p>
        <p>Run one job at a time for a customer: <code>joblane submit --key customer --key acme --max-queued 10 -- make sync</code></p>`}<//>`}
    ${rows.length > 0 && html`<${Table} caption=${`Keys of ${scope}`} rows=${rows} id=${(/** @type {Key} */ key) => key.id} to=${(/** @type {Key} */ key) => href(['keys', key.type, key.id])}
      columns=${[
        { name: 'Key', className: 'wide', cell: named },
        { name: 'Slots taken', cell: (/** @type {Key} */ key) => html`<${Meter} value=${key.active} most=${key.max_active} label=${`Slots of ${named(key)}`} />` },
        { name: 'Waiting', cell: (/** @type {Key} */ key) => html`<${Meter} value=${key.queued} most=${key.max_queued} label=${`Jobs that wait for ${named(key)}`} />` },
        { name: 'When full', className: 'minor', cell: (/** @type {Key} */ key) => WHEN_FULL[key.when_full] },
      ]} />`}
    <${Pager} route=${route} next=${data.next} what="keys" />
  </section>`;
}

/** @param {{ type: string, id: string }} props */
function One({ type, id }) {
  const { data, error, refresh } = usePoll(
    (signal) => /** @type {Promise<Detail>} */ (call('GET', path`v1/keys/${type}/${id}`, { signal })), 5000, [type, id]);
  const back = html`<a href=${href(['keys'], { type })}>Keys of ${type}</a>`;
  if (!data) {
    return html`<${Head} title="Key" about=${back} />
      <${Reading} error=${error} retry=${refresh} gone=${html`<p>No job has this key now, and none waits for it.</p><p>${back}</p>`} />`;
  }
  const clear = async () => {
    const many = data.queued === 1 ? 'the job' : `all ${data.queued} jobs`;
    const answer = await confirm({
      title: `Cancel ${many} that ${data.queued === 1 ? 'waits' : 'wait'} for ${named(data)}?`,
      text: 'Jobs that have a slot go on. A cancelled job can be submitted again.',
      action: data.queued === 1 ? 'Cancel the job' : `Cancel ${data.queued} jobs`,
      danger: true,
      reason: true,
    });
    if (answer) await clearAll(type, id, answer.reason);
    refresh();
  };
  return html`
    <${Head} title=${named(data)} about=${html`Key of <a href=${type === 'command' || type.startsWith('policy.') ? href(['keys'], { type }) : href(['types', type])}>${type}</a>`}>
      ${can('admin.mutate') && data.queued > 0 && html`<button type="button" class="danger" onClick=${clear}>Cancel ${data.queued} that ${data.queued === 1 ? 'waits' : 'wait'}</button>`}
    <//>
    <section class="panel"><${Facts} entries=${[
      ['Slots taken', html`<${Meter} value=${data.active} most=${data.max_active} label="Slots taken" />`],
      ['Waiting', html`<${Meter} value=${data.queued} most=${data.max_queued} label="Jobs that wait" />`],
      ['When full', WHEN_FULL[data.when_full]],
      ['A job whose agent was lost', STALE[data.stale_policy]],
      ['Had to wait so far', data.queued_total],
      ['Replaced by newer ones', data.replaced],
      ['Ended as stale', data.stale],
      ['Id', html`<${Id} text=${data.id} />`],
    ]} /></section>
    <${Section} title="Jobs that have a slot">
      ${data.holders.length ? html`<${Table} caption="Jobs that have a slot" rows=${data.holders} id=${(/** @type {Holder} */ job) => job.id} to=${(/** @type {Holder} */ job) => href(['jobs', job.id])}
        columns=${[
          { name: 'Job', cell: (/** @type {Holder} */ job) => html`<${Id} text=${job.id} />` },
          { name: 'Slot number', className: 'number minor', cell: (/** @type {Holder} */ job) => job.slot },
          { name: 'State', cell: stateOf },
          { name: 'Since', cell: (/** @type {Holder} */ job) => html`<${Time} at=${job.since_at} />` },
          { name: 'Agent', className: 'minor', cell: (/** @type {Holder} */ job) => job.agent ?? '–' },
          { name: 'Lease ends', className: 'minor', cell: (/** @type {Holder} */ job) => html`<${Time} at=${job.lease_ends_at} />` },
          { name: 'Why', className: 'wide', cell: (/** @type {Holder} */ job) => html`<${Sentence} text=${job.reason} />` },
        ]} />` : html`<${Empty}><p>No job has a slot.</p><//>`}
    <//>
    <${Section} title="Jobs that wait, the next one first">
      ${data.queue.length ? html`<${Table} caption="Jobs that wait" rows=${data.queue} id=${(/** @type {Waiter} */ job) => job.id} to=${(/** @type {Waiter} */ job) => href(['jobs', job.id])}
        columns=${[
          { name: 'Job', cell: (/** @type {Waiter} */ job) => html`<${Id} text=${job.id} />` },
          { name: 'Position', className: 'number', cell: (/** @type {Waiter} */ job) => job.position },
          { name: 'State', cell: stateOf },
          { name: 'Since', cell: (/** @type {Waiter} */ job) => html`<${Time} at=${job.since_at} />` },
          { name: 'Why', className: 'wide', cell: (/** @type {Waiter} */ job) => html`<${Sentence} text=${job.reason} />` },
        ]} />` : html`<${Empty}><p>No job waits for a slot.</p><//>`}
      ${data.queued > data.queue.length && html`<p class="about">The first ${data.queue.length} of ${data.queued}.</p>`}
    <//>`;
}

/** @param {Holder | Waiter} job */
function stateOf(job) {
  return job.state ? html`<${Badge} state=${job.state} />` : 'deleted';
}

/**
 * Cancel what waits for a key, page by page, and say how many jobs that were.
 * @param {string} type
 * @param {string} id
 * @param {string | null} reason
 */
async function clearAll(type, id, reason) {
  let count = 0;
  try {
    for (;;) {
      /** @type {import('../types').Cleared} */
      const page = await call('DELETE', path`v1/keys/${type}/${id}/queued`, { body: { reason } });
      count += page.cancelled.length;
      if (!page.left || !page.cancelled.length) break;
    }
    say(count === 1 ? '1 job cancelled' : `${count} jobs cancelled`);
  } catch (error) {
    say(`${count} jobs cancelled, then: ${error instanceof Error ? error.message : error}`, 'bad');
  }
}

/** @param {Key} key */
function named(key) {
  return key.segments.map(written).join(' / ');
}
