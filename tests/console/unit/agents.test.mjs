// What agents do, filters and groups of the map, the way of the arrow keys, and links to other systems.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { countKinds, groupsOf, isWanted, kindOf, sizeOf } from '../../../console/agent-figures.js';
import { neighbour } from '../../../console/agent-map.js';
import { linksFor } from '../../../console/links.js';

const agent = (change = {}) => ({
  name: 'i-1', alive: true, last_seen_at: '', threads: 4, running: 0, queues: ['default'], isolation: 'full', version: '1.0.0',
  trouble: null, state: 'ready', labels: {}, facts: {}, ...change,
});

test('what an agent does: what needs a look comes first', () => {
  assert.equal(kindOf(agent()), 'idle');
  assert.equal(kindOf(agent({ running: 1 })), 'busy');
  for (const state of ['cordoning', 'cordoned', 'draining']) assert.equal(kindOf(agent({ state, running: 1 })), 'leaving');
  assert.equal(kindOf(agent({ state: 'draining', trouble: 'disk full' })), 'trouble');
  assert.equal(kindOf(agent({ alive: false, trouble: 'disk full' })), 'gone');
  assert.equal(kindOf(agent({ state: 'gone' })), 'gone');
  assert.deepEqual(countKinds([agent(), agent(), agent({ running: 2 })]), { trouble: 0, gone: 0, leaving: 0, busy: 1, idle: 2 });
});

test('filters must all match, and each word is found somewhere', () => {
  const one = agent({ labels: { group: 'web.dev' }, facts: { zone: 'eu-central-1a' }, queues: ['gpu'] });
  const all = { find: '', queue: '', label: '', kind: '' };
  assert.ok(isWanted(one, all));
  assert.ok(isWanted(one, { find: 'WEB eu-', queue: 'gpu', label: 'group=web.dev', kind: 'idle' }));
  assert.ok(isWanted(one, { ...all, find: 'idle' }));
  for (const no of [{ find: 'web prod' }, { queue: 'default' }, { label: 'group=web' }, { kind: 'busy' }]) assert.ok(!isWanted(one, { ...all, ...no }), JSON.stringify(no));
});

test('agents are grouped by state, version, label or fact, the largest group first', () => {
  const agents = [agent({ name: 'a', labels: { 'a:b': 'x' } }), agent({ name: 'b', running: 1 }), agent({ name: 'c', running: 1, facts: { zone: 'z' } })];
  const names = (by) => groupsOf(agents, by).map((group) => [group.name, group.agents.map((one) => one.name).join('')]);
  assert.deepEqual(names(''), [['', 'bca']]);
  assert.deepEqual(names('state'), [['busy', 'bc'], ['idle', 'a']]);
  agents.push(agent({ name: 'd', alive: false }));
  assert.deepEqual(names('state').map(([name]) => name), ['gone', 'busy', 'idle']);
  agents.pop();
  assert.deepEqual(names('label:a:b'), [['no a:b', 'bc'], ['x', 'a']]);
  assert.deepEqual(names('fact:zone'), [['no zone', 'ba'], ['z', 'c']]);
  assert.deepEqual(names('version'), [['1.0.0', 'bca']]);
});

test('a cell grows with the threads, and not without end', () => {
  const sizes = [0, 1, 4, 64, 256, 1000].map(sizeOf);
  assert.deepEqual(sizes.map((size) => Number(size.toFixed(2))), [1, 1, 1.41, 2, 2.24, 2.24]);
});

test('arrow keys go from cell to cell', () => {
  const cell = (left, top) => ({ left, width: 10, bottom: top + 10 });
  const cells = [cell(0, 0), cell(12, 2), cell(24, 0), cell(0, 20), cell(14, 20), cell(0, 40)];
  const way = (from, key) => neighbour(cells, from, key);
  assert.deepEqual([way(0, 'ArrowRight'), way(5, 'ArrowRight'), way(0, 'ArrowLeft'), way(3, 'Home'), way(3, 'End')], [1, 5, 0, 0, 5]);
  assert.deepEqual([way(1, 'ArrowDown'), way(2, 'ArrowDown'), way(4, 'ArrowDown'), way(5, 'ArrowDown')], [4, 4, 5, 5]);
  assert.deepEqual([way(4, 'ArrowUp'), way(5, 'ArrowUp'), way(0, 'ArrowUp'), way(1, 'Enter')], [1, 3, 0, 1]);
});

test('a link has all of its values, its subject, and a safe scheme', () => {
  const links = [
    { name: 'Metrics', template: 'https://m.example.com/?host={agent}' }, { name: 'Job', template: 'https://l.example.com/{job_id}' },
    { name: 'Both', template: 'https://l.example.com/{agent}/{job_id}' }, { name: 'Script', template: 'javascript:alert("{agent}")' },
    { name: 'Local', template: 'http://localhost:3000/{agent}' }, { name: 'Plain', template: 'http://example.com/{agent}' },
  ];
  assert.deepEqual(linksFor(links, 'agent', { agent: 'a b&c' }), [
    { name: 'Metrics', url: 'https://m.example.com/?host=a%20b%26c' }, { name: 'Local', url: 'http://localhost:3000/a%20b%26c' },
  ]);
  assert.deepEqual(linksFor(links, 'job_id', { job_id: 'j', agent: 'a' }).map((link) => link.name), ['Job', 'Both']);
});
