// Filters of the list of jobs.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { chipsOf, filtersOf, sought, wordsOf } from '../../../console/job-filters.js';

const query = (text) => new URLSearchParams(text);
const NOW = Date.parse('2026-11-23T12:00:00.000Z');

test('an address gives the filters of the API, and no others', () => {
  assert.deepEqual(filtersOf(query('state=failed&state=dead&state=nonsense&label=a%3Db&label=x&page=500&evil=1&name=n'), NOW),
    { state: ['failed', 'dead'], name: 'n', label: ['a=b'] });
  assert.deepEqual(filtersOf(query('since=24h&hidden=true'), NOW), { since: '2026-11-22T12:00:00.000Z', hidden: 'true' });
  assert.deepEqual(filtersOf(query('since=2026-01-01T00:00:00Z&hidden=1'), NOW), { since: '2026-01-01T00:00:00Z' });
  assert.deepEqual(filtersOf(query(''), NOW), {});
});

test('each filter but the states is a chip, which can be removed', () => {
  const chips = chipsOf(query('state=dead&label=a%3Db&label=c%3Dd&queue=bulk&since=1h'));
  assert.deepEqual(chips.map((chip) => chip.text), ['queue bulk', 'a=b', 'c=d', 'last hour']);
  assert.equal(chips[1].without.toString(), 'state=dead&label=c%3Dd&queue=bulk&since=1h');
});

test('the question before an action says all filters', () => {
  assert.equal(wordsOf(query('state=dead&state=partial_failure&name=n')), 'dead or partial failure, name n');
  assert.equal(wordsOf(query('')), '');
});

test('an id is opened, a label is a label, and the rest is a name', () => {
  assert.deepEqual(sought(' 01m83cd50rcgypd16wtqbn02m0 '), { id: '01M83CD50RCGYPD16WTQBN02M0' });
  assert.deepEqual(sought('team=web'), { label: 'team=web' });
  assert.deepEqual(sought('nightly import'), { name: 'nightly import' });
  assert.deepEqual(sought('01M83CD50RCGYPD16WTQBN02M'), { name: '01M83CD50RCGYPD16WTQBN02M' });
  assert.equal(sought('  '), null);
});
