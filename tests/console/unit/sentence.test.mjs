// Sentences of the API with times and ids in them.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { piecesOf } from '../../../console/sentence.js';

test('times and ids are told from the words around them', () => {
  assert.deepEqual(piecesOf('paused since 2026-11-23T05:00:00.123Z (2 min ago)'), ['paused since ', '2026-11-23T05:00:00.123Z', ' (2 min ago)']);
  assert.deepEqual(piecesOf('held by 01M83CD50RCGYPD16WTQBN02M0, until 2026-11-23T05:00:00Z'),
    ['held by ', '01M83CD50RCGYPD16WTQBN02M0', ', until ', '2026-11-23T05:00:00Z', '']);
  assert.deepEqual(piecesOf('<b>2026-11-23</b> 01M83CD50'), ['<b>2026-11-23</b> 01M83CD50']);
});
