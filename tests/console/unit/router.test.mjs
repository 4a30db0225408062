// Addresses are read and written without loss, whatever a name contains.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { href, parseRoute, searchOf } from '../../../console/router.js';

/** @param {string} hash */
function read(hash) {
  const { path, query } = parseRoute(hash);
  return { path, query: [...query] };
}

test('an address has decoded segments and its filters', () => {
  assert.deepEqual(read(''), { path: [], query: [] });
  assert.deepEqual(read('#/'), { path: [], query: [] });
  assert.deepEqual(read('#/jobs/01J'), { path: ['jobs', '01J'], query: [] });
  assert.deepEqual(read('#/jobs?state=failed&state=dead&label=a%3Db'), {
    path: ['jobs'],
    query: [['state', 'failed'], ['state', 'dead'], ['label', 'a=b']],
  });
});

test('what cannot be decoded is the overview', () => {
  assert.deepEqual(read('#/jobs/%E0%A4%A'), { path: [], query: [] });
});

test('what is written is read back', () => {
  for (const name of ['plain', 'a/b', 'a?b#c', '%2F', 'ä €', '"><img>', '..', 'javascript:alert(1)']) {
    const address = href(['queues', name], { find: name });
    assert.match(address, /^#\/queues\//);
    assert.deepEqual(read(address), { path: ['queues', name], query: [['find', name]] });
  }
});

test('values that are empty are left out', () => {
  assert.equal(href(['jobs'], { state: '', queue: null, type: undefined }), '#/jobs');
  assert.equal(searchOf({ state: ['failed', '', 'dead'] }).toString(), 'state=failed&state=dead');
});
