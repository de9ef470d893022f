import { expect, test } from 'vitest';
import { itemOf } from './items/item.ts';
import type { KnownJob } from './lanes/known-job.ts';
import { aJob } from '../testing/planning.ts';
import { createWakes } from './wakes.ts';

type Row = Parameters<ReturnType<typeof createWakes>['choose']>[0][number];

const job: KnownJob = { ...aJob('k', 1), crashes: 0, rowVersion: '1' };

const row = (other: Partial<Row[number]> = {}): Row => [{ pool: 'default', bundle: null, job, ...other }];
const batch: Row = [...row(), ...row()];
const item = (position: number, node: string | null, dispatchedMs = 0, pool = 'default') =>
  itemOf({ jobs: [job], pool, bundle: null, dispatchedMs }, position, node);

const nodeOf = (id: string, running = 0, other: object = {}) =>
  ({
    id,
    pool: 'default',
    slots: 10,
    tasks: { t: { min: 1, max: 1 } },
    runs: {},
    running,
    ...other,
  }) as never;

/** Returns a view of so many idle nodes, n0 and so on. */
function seen(count: number, items: readonly ReturnType<typeof item>[] = [], running = 0) {
  return { now: 1_000, nodes: Array.from({ length: count }, (_, n) => nodeOf(`n${n}`, running)), items };
}

test('one node and a spare one are woken for a job, the next in turn for the next', () => {
  const wakes = createWakes();
  const named = [1, 2, 3, 4].map(() => wakes.choose([row()], seen(4)));
  expect(named).toEqual([['n0', 'n1'], ['n1', 'n2'], ['n2', 'n3'], ['n3', 'n0']]); // prettier-ignore
});

test('as many as have slots for all that is ready, and prefetch batches', () => {
  const rows = (count: number, of: Row) => Array.from({ length: count }, () => of);
  const ready = Array.from({ length: 5 }, (_, n) => item(n, null));
  expect(createWakes().choose(rows(11, row()), seen(6))).toHaveLength(3);
  expect(createWakes().choose(rows(16, row()), seen(6, ready))).toHaveLength(4);
  expect(createWakes().choose(rows(11, batch), seen(6))).toHaveLength(2);
  expect(createWakes().choose([row()], { ...seen(6, [], 10), now: 0 })).toBeNull();
  expect(createWakes().choose([row()], { ...seen(6), nodes: [10, 0, 10, 3, 9].map((n, at) => nodeOf(`n${at}`, n)) })).toEqual(['n1', 'n3']); // prettier-ignore
});

test.each<[string, readonly Row[], Parameters<ReturnType<typeof createWakes>['choose']>[1]]>([
  ['there are few', [row()], seen(2)],
  ['all are needed', Array.from({ length: 45 }, () => row()), seen(5)],
  ['a bundle is among them', [row(), row({ bundle: 'a' })], seen(5)],
  ['a job was lost with its node', [row({ job: { ...job, crashes: 1 } })], seen(5)],
  ['pools differ', [row(), row({ pool: 'other' })], seen(5)],
  ['few can run the task', [row({ job: { ...job, task: 'other' } })], seen(5)],
  [
    'names are long',
    [row()],
    { ...seen(0), nodes: Array.from({ length: 5 }, (_, n) => nodeOf(`${n}${'\u{1F600}'.repeat(1_000)}`)) },
  ],
])('all are woken where %s', (_why, rows, known) => {
  expect(createWakes().choose(rows, known)).toBeNull();
});

test('nodes that were woken in vain are not named for half a minute', () => {
  const wakes = createWakes();
  expect(wakes.overlooked([item(1, null, 0)], 5_000)).toBe(false); // all were woken
  expect(wakes.choose([row()], seen(5))).toEqual(['n0', 'n1']);
  expect(wakes.overlooked([item(1, null, 1_000), item(2, 'n1', 0)], 1_100)).toBe(false);
  expect(wakes.overlooked([item(1, null, 1_000)], 1_101)).toBe(true);
  expect(wakes.overlooked([item(1, null, 1_000)], 1_200)).toBe(false);
  expect(wakes.choose([row()], { ...seen(5), now: 2_000 })).toEqual(['n3', 'n4']);
  expect(wakes.choose([row()], { ...seen(4), now: 2_000 })).toBeNull();
  expect(wakes.choose([row()], { ...seen(5), now: 40_000 })).toHaveLength(2);
});

test('a pool whose nodes are all woken hides no item of another', () => {
  const wakes = createWakes();
  wakes.choose([row()], seen(5));
  expect(wakes.choose([row({ pool: 'other' })], seen(5))).toBeNull();
  expect(wakes.overlooked([item(1, null, 0, 'other')], 1_200)).toBe(false);
  expect(wakes.overlooked([item(1, null, 0, 'other'), item(2, null)], 1_200)).toBe(true);
});
