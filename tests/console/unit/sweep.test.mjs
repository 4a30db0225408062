// Actions on many jobs: pages until the end, errors of single jobs, waiting when asked to, stopping.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import { ApiError } from '../../../console/api.js';
import { sentence, sweepEach, sweepPages } from '../../../console/sweep.js';

const running = () => new AbortController().signal;

test('pages are asked for until there is no next one, and added up', async () => {
  const asked = [];
  const pages = {
    first: { examined: 100, restarted: 98, refused: [{ id: 'a', detail: 'ended' }, { id: 'b', detail: 'ended' }], next: 'c1' },
    c1: { examined: 20, restarted: 20, refused: [], next: null },
  };
  const reports = [];
  await sweepPages(async (next) => { asked.push(next); return pages[next ?? 'first']; }, 'restarted', (progress) => reports.push(progress), running());
  assert.deepEqual(asked, [null, 'c1']);
  assert.deepEqual(reports.map((one) => [one.examined, one.done, one.refused.length]), [[100, 98, 2], [120, 118, 2]]);
});

test('a stopped action asks for no further page', async () => {
  const controller = new AbortController();
  let pages = 0;
  await sweepPages(async () => { pages += 1; return { examined: 1, requeued: 1, refused: [], next: 'more' }; }, 'requeued', () => controller.abort(), controller.signal);
  assert.equal(pages, 1);
});

test('a page that is refused for now is asked for again after the time the API names', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let tries = 0;
  const done = sweepPages(async () => {
    tries += 1;
    if (tries === 1) throw new ApiError(429, {}, 7);
    return { examined: 1, requeued: 1, refused: [], next: null };
  }, 'requeued', () => {}, running());
  await new Promise((resolve) => setImmediate(resolve));
  mock.timers.tick(6999);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(tries, 1);
  mock.timers.tick(1);
  await done;
  mock.timers.reset();
  assert.equal(tries, 2);
});

test('a refused page ends the action at once', async () => {
  let tries = 0;
  await assert.rejects(sweepPages(async () => { tries += 1; throw new ApiError(403, { detail: 'no' }); }, 'x', () => {}, running()), /no/);
  assert.equal(tries, 1);
});

test('one job that is refused does not stop the others', async () => {
  const ids = Array.from({ length: 25 }, (_, n) => `job${n}`);
  let last = null;
  let atOnce = 0;
  let most = 0;
  await sweepEach(ids, async (id) => {
    atOnce += 1;
    most = Math.max(most, atOnce);
    await new Promise((resolve) => setImmediate(resolve));
    atOnce -= 1;
    if (id === 'job3') throw new ApiError(409, { detail: 'it is not dead' });
  }, (progress) => { last = progress; }, running());
  assert.equal(last.done, 24);
  assert.equal(last.examined, 25);
  assert.deepEqual(last.refused, [{ id: 'job3', detail: 'it is not dead' }]);
  assert.equal(most, 4);
});

test('an ended login stops an action on single jobs', async () => {
  await assert.rejects(sweepEach(['a', 'b'], async () => { throw new ApiError(401, { detail: 'login' }); }, () => {}, running()), /login/);
});

test('progress is told in a sentence', () => {
  const sweep = { title: '', verb: 'restarted', of: null, progress: { examined: 47, done: 12, refused: [] }, phase: 'done', problem: '' };
  assert.equal(sentence(sweep), 'finished. 12 restarted, none left out, 47 examined.');
  assert.equal(sentence({ ...sweep, phase: 'failed', problem: 'no access.' }), 'it ended early. no access. 12 restarted, none left out, 47 examined.');
  const refused = [{ id: 'a', detail: 'x' }];
  assert.equal(sentence({ ...sweep, verb: 'dismissed', of: 4, phase: 'running', progress: { examined: 2, done: 1, refused } }), 'running; stay on this page. 1 of 4 dismissed, 1 left out.');
});

test('what was done before is added up and told', async () => {
  const pages = { first: { examined: 3, resubmitted: 1, already: 2, refused: [], next: 'c1' }, c1: { examined: 1, resubmitted: 0, already: 1, refused: [], next: null } };
  let last = null;
  await sweepPages(async (next) => pages[next ?? 'first'], 'resubmitted', (progress) => { last = progress; }, running());
  assert.equal(last.already, 3);
  const said = sentence({ title: 'Resubmit', verb: 'resubmitted', of: null, progress: last, phase: 'done', problem: '' });
  assert.equal(said, 'finished. 1 resubmitted, none left out, 3 resubmitted before, 4 examined.');
});
