// Types of parameters in words.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { resolved, typeName } from '../../../console/schema.js';

test('simple types, formats and several types', () => {
  assert.equal(typeName({ type: 'string' }, {}), 'string');
  assert.equal(typeName({ type: 'string', format: 'date-time' }, {}), 'string (date-time)');
  assert.equal(typeName({ type: ['string', 'null'] }, {}), 'string or null');
  assert.equal(typeName({}, {}), 'any');
});

test('arrays, choices and constants', () => {
  assert.equal(typeName({ type: 'array', items: { type: 'integer' } }, {}), 'array of integer');
  assert.equal(typeName({ type: 'array' }, {}), 'array of any');
  assert.equal(typeName({ anyOf: [{ type: 'string' }, { type: 'null' }] }, {}), 'string or null');
  assert.equal(typeName({ enum: ['a', 1] }, {}), '"a", 1');
  assert.equal(typeName({ const: 3 }, {}), '3');
});

test('a reference is followed, and what stands beside it counts', () => {
  const root = { $defs: { Origin: { type: 'string', description: 'theirs' } } };
  assert.equal(typeName({ $ref: '#/$defs/Origin' }, root), 'string');
  assert.equal(resolved({ $ref: '#/$defs/Origin', description: 'ours' }, root).description, 'ours');
});

test('a schema that refers to itself ends', () => {
  const root = { $defs: { Tree: { type: 'array', items: { $ref: '#/$defs/Tree' } } } };
  assert.equal(typeName({ $ref: '#/$defs/Tree' }, root), 'array of array of array of array of any');
});
