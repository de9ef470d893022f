import { expect, test } from 'vitest';
import { aJob, aPool, aSnapshot, lanesOf } from '../../../testing/snapshots.ts';
import { policy } from '../../compose/compose.ts';
import type { Candidate } from '../../snapshot.ts';
import { fairShare } from './fair-share.ts';

const backlog = (keys: number, jobs: number): Candidate[] =>
  Array.from({ length: keys * jobs }, (_, seq) => aJob({ seq, key: `old${seq % keys}` }));

/**
 * Makes plans of `slots` jobs each. `come` returns the jobs that arrive before each plan. Returns the keys in
 * the order in which their jobs went.
 */
function play(
  waiting: Candidate[],
  slots: readonly number[],
  come: (plan: number) => readonly Candidate[],
): readonly string[] {
  const { plan, initial } = policy({ order: fairShare() });
  let [state, left] = [initial, waiting];
  const went: string[] = [];
  slots.forEach((depth, index) => {
    left = [...left, ...come(index)];
    const made = plan(aSnapshot({ lanes: lanesOf(left), pools: { default: aPool(depth) } }), state);
    ({ state } = made);
    const ids = new Map(left.map((job) => [job.id, job.key]));
    for (const { id } of made.dispatch) went.push(ids.get(id) ?? '');
    const gone = new Set(made.dispatch.map(({ id }) => id));
    left = left.filter(({ id }) => !gone.has(id));
  });
  return went;
}

test('the first job of a new key goes among the next two, whatever waits', () => {
  const came = aJob({ seq: 99_999, key: 'new' });
  const went = play(backlog(2_000, 2), [300, 300, 4], (plan) => (plan === 2 ? [came] : []));
  expect(went.indexOf('new')).toBeGreaterThanOrEqual(600);
  expect(went.indexOf('new')).toBeLessThan(602);
});

test('its second waits for its turn', () => {
  const twice = [aJob({ seq: 90_000, key: 'new' }), aJob({ seq: 90_001, key: 'new' })];
  const went = play(backlog(50, 4), [60, 120], (plan) => (plan === 1 ? twice : []));
  expect(went.indexOf('new')).toBeLessThan(62);
  expect(went.lastIndexOf('new')).toBeGreaterThan(62 + 30);
});

test.each([2, 4, 8])('a stream of ever new keys leaves half of %i slots to those that wait', (slots) => {
  let seq = 50_000;
  const plans = Array.from({ length: 40 }, () => slots);
  const went = play(backlog(5, 200), plans, () =>
    Array.from({ length: slots / 2 }, () => aJob({ seq, key: `new${(seq += 1)}` })),
  );
  const old = went.filter((key) => key.startsWith('old')).length;
  expect(old).toBeGreaterThanOrEqual(went.length / 2 - 1);
  expect(old).toBeLessThanOrEqual(went.length / 2 + slots);
});

test('with one slot, every other job is one of those that wait', () => {
  let seq = 50_000;
  const plans = Array.from({ length: 20 }, () => 1);
  const went = play(backlog(5, 200), plans, () => [aJob({ seq, key: `new${(seq += 1)}` })]);
  expect(went.filter((key) => key.startsWith('old')).length).toBeGreaterThanOrEqual(5);
});
