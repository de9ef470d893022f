import type { ItemFacts, SettledBatch } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import type { ItemMade } from './item.ts';
import type { InFlightItems } from './in-flight.ts';
import { createInFlightItems } from './in-flight.ts';

const facts = {
  queue: 'q',
  key: 'k',
  task: 't',
  version: 1,
  priority: 0,
  seq: 1,
  createdMs: 0,
  expiresMs: null,
  attributes: {},
  tries: 0,
  pool: 'default',
  bundle: null,
  dispatchedMs: 5,
};
const itemOf = (...ids: readonly string[]): ItemMade => ({
  jobs: ids.map((id) => ({ ...facts, id })),
  pool: 'default',
  bundle: null,
  dispatchedMs: 5,
});
const items = (ready: readonly number[], running: readonly number[] = []) => [
  { pool: 'default', node: null, positions: ready },
  { pool: 'default', node: 'n', positions: running },
];
const see = (inFlight: InFlightItems, seen: ReturnType<typeof items>, settlements: boolean) =>
  inFlight.see(seen, { settlements, from: 0 }).unknown;
const batch = (
  n: number,
  positions: readonly number[],
  verdict: NonNullable<SettledBatch['verdicts']>[number],
): SettledBatch => ({
  n,
  atMs: 100,
  positions,
  sizes: null,
  verdicts: verdict === 'done' ? null : positions.map(() => verdict),
  busyMs: positions.map(() => 30),
});

test('it knows what it wrote, follows who holds it, and asks for what it did not write', () => {
  const inFlight = createInFlightItems();
  inFlight.wrote(itemOf('a'), 1);
  inFlight.wrote(itemOf('b'), 2);
  expect(see(inFlight, items([1], [2, 3]), false)).toEqual([3]);
  const stranger: ItemFacts = { ...facts, id: 'c', position: 3 };
  inFlight.learn([stranger], { items: items([1], [2, 3]), unknown: [3] });
  expect(
    inFlight
      .flying()
      .jobs()
      .map(({ id, state, node }) => [id, state, node]),
  ).toEqual([
    ['a', 'ready', null],
    ['b', 'running', 'n'],
    ['c', 'running', 'n'],
  ]);
  expect(see(inFlight, items([2]), false)).toEqual([]);
  expect(
    inFlight
      .flying()
      .jobs()
      .map(({ id, state }) => [id, state]),
  ).toEqual([['b', 'ready']]);
});

test('an item without a job is asked for once', () => {
  const inFlight = createInFlightItems();
  expect(see(inFlight, items([1, 2]), false)).toEqual([1, 2]);
  inFlight.learn([{ ...facts, id: 'a', position: 1 }], { items: items([1, 2]), unknown: [1, 2] });
  expect(see(inFlight, items([1, 2]), false)).toEqual([]);
  expect(
    inFlight
      .flying()
      .jobs()
      .map(({ id }) => id),
  ).toEqual(['a']);
});

test('an ended attempt is told once, with what its job was; what went without one was never run', () => {
  const inFlight = createInFlightItems();
  for (const [id, position] of [
    ['a', 1],
    ['b', 2],
    ['c', 3],
  ] as const)
    inFlight.wrote(itemOf(id), position);
  see(inFlight, items([], [3]), true);
  const told = (batches: readonly SettledBatch[], whole: boolean) =>
    inFlight.settled(batches, whole, 200).map(({ job, outcome, busyMs }) => [job.id, outcome, busyMs]);
  expect(told([batch(7, [1], 'done')], false)).toEqual([['a', 'done', 30]]);
  expect(told([batch(7, [1], 'done'), batch(8, [3, 99], 'crash')], true)).toEqual([
    ['c', 'crash', 30],
    ['b', 'cancelled', 0],
  ]);
  expect(inFlight.unsaved()).toEqual([7, 8]);
  inFlight.saved([7]);
  expect(inFlight.unsaved()).toEqual([8]);
  expect(
    inFlight
      .flying()
      .jobs()
      .map(({ id }) => id),
  ).toEqual(['c']);
});

test('jobs of settled batches are told with their own run times, in order; those of items that are not known are left out', () => {
  const inFlight = createInFlightItems();
  inFlight.wrote(itemOf('a', 'b'), 1);
  inFlight.wrote(itemOf('c', 'd'), 3);
  see(inFlight, items([]), true);
  const batches = [
    {
      n: 1,
      atMs: 100,
      positions: [1, 2, 3],
      sizes: [2, 3, 2],
      verdicts: null,
      busyMs: [1, 2, 8, 8, 8, 3, 4],
    },
  ];
  expect(
    inFlight.settled(batches, true, 200).map(({ job, outcome, busyMs }) => [job.id, outcome, busyMs]),
  ).toEqual([
    ['a', 'done', 1],
    ['b', 'done', 2],
    ['c', 'done', 3],
    ['d', 'done', 4],
  ]);
});

test('a batch that ended attempts under a number that was used before is told, too: a crash of the server begins them anew', () => {
  const inFlight = createInFlightItems();
  inFlight.wrote(itemOf('a'), 1);
  inFlight.wrote(itemOf('b'), 2);
  see(inFlight, items([]), true);
  const told = (batches: readonly SettledBatch[]) =>
    inFlight.settled(batches, false, 200).map(({ job, outcome }) => [job.id, outcome]);
  expect(told([batch(1, [1], 'done')])).toEqual([['a', 'done']]);
  expect(told([{ ...batch(1, [2], 'retry'), atMs: 5_000 }])).toEqual([['b', 'retry']]);
});

test('batches that the server has forgotten are not removed with the next write, when others may have their numbers', () => {
  const inFlight = createInFlightItems();
  see(inFlight, items([]), true);
  inFlight.settled([batch(1, [1], 'done'), batch(2, [2], 'done')], true, 200);
  inFlight.settled([batch(2, [2], 'done')], true, 200);
  expect(inFlight.unsaved()).toEqual([2]);
});

test('items that were taken back are gone at once, and are not told as cancelled', () => {
  const inFlight = createInFlightItems();
  inFlight.wrote(itemOf('a'), 1);
  inFlight.wrote(itemOf('b'), 2);
  expect(inFlight.tookBack(['a', 'b', 'z'], new Set(['b', 'z'])).map(({ id }) => id)).toEqual(['b']);
  expect(see(inFlight, items([1]), true)).toEqual([]);
  expect(inFlight.settled([], true, 9)).toEqual([]);
  expect(
    inFlight
      .flying()
      .jobs()
      .map(({ id, stuck }) => [id, stuck]),
  ).toEqual([['a', true]]);
  see(inFlight, items([], [1]), true);
  expect(
    inFlight
      .flying()
      .jobs()
      .map(({ id, stuck }) => [id, stuck]),
  ).toEqual([['a', undefined]]);
});

test('jobs that one call took together share its time', () => {
  const inFlight = createInFlightItems();
  for (const position of [1, 2, 3]) inFlight.wrote({ ...itemOf(`b${position}`), bundle: 'b1' }, position);
  inFlight.wrote(itemOf('alone'), 4);
  see(inFlight, items([], [3]), true);
  const told = inFlight.settled(
    [batch(1, [1, 2], 'done'), batch(2, [4], 'done'), batch(3, [3], 'retry')],
    true,
    200,
  );
  expect(told.map(({ job, busyMs }) => [job.id, busyMs])).toEqual([
    ['b1', 10],
    ['b2', 10],
    ['alone', 30],
    ['b3', 10],
  ]);
});

test('it knows before which position nothing is any more', () => {
  const inFlight = createInFlightItems();
  expect(inFlight.from()).toBe(0);
  inFlight.wrote(itemOf('a'), 5);
  inFlight.wrote(itemOf('b'), 6);
  // not before a snapshot has shown them, since another leader's items may exist, too
  expect(inFlight.from()).toBe(0);
  see(inFlight, items([3, 5], [6]), false);
  expect(inFlight.from()).toBe(3);
  see(inFlight, items([], [6]), false);
  expect(inFlight.from()).toBe(6);
  inFlight.wrote(itemOf('c'), 9);
  see(inFlight, items([9]), false);
  expect(inFlight.from()).toBe(9);
  see(inFlight, items([]), false);
  expect(inFlight.from()).toBe(10);
  // an item that appears late, at a low position
  expect(see(inFlight, items([2]), false)).toEqual([2]);
  expect(inFlight.from()).toBe(2);
});

test('a batch that is looked at by its position, and is no more, is looked for where its parts would be', () => {
  const inFlight = createInFlightItems();
  inFlight.wrote(itemOf('a', 'b'), 256);
  inFlight.wrote(itemOf('c', 'd'), 512);
  inFlight.wrote(itemOf('e'), 768);
  const seen = items([768]);
  const told = inFlight.see(seen, { settlements: true, from: 512 });
  expect(told).toEqual({ unknown: [], parts: [257, 258, 259, 260] });
  inFlight.learn([{ ...facts, id: 'a', position: 257 }], { items: seen, unknown: told.unknown });
  expect(inFlight.before(512)).toEqual([257]);
  expect(inFlight.see(items([768], [257]), { settlements: true, from: 512 })).toEqual({
    unknown: [],
    parts: [],
  });
  expect(
    inFlight
      .flying()
      .jobs()
      .map(({ id, state }) => [id, state]),
  ).toEqual([
    ['e', 'ready'],
    ['a', 'running'],
  ]);
  expect(inFlight.settled([], true, 1).map(({ job, outcome }) => [job.id, outcome])).toEqual([
    ['b', 'cancelled'],
    ['c', 'cancelled'],
    ['d', 'cancelled'],
  ]);
});

test('what was in flight stays as it was seen, and a job that nothing happened to stays the same object', () => {
  const inFlight = createInFlightItems();
  inFlight.wrote(itemOf('a', 'b'), 256);
  inFlight.wrote(itemOf('c'), 512);
  const before = inFlight.flying();
  expect(before.count).toBe(3);
  const [first] = before.jobs();
  expect(first).toMatchObject({ id: 'a', state: 'ready', node: null, row: 256, dispatchedMs: 5 });
  expect(before.jobs().at(2)).not.toHaveProperty('row');
  see(inFlight, items([256], [512]), false);
  const after = inFlight.flying().jobs();
  expect(after.map(({ id, state, node }) => [id, state, node])).toEqual([
    ['a', 'ready', null],
    ['b', 'ready', null],
    ['c', 'running', 'n'],
  ]);
  expect(after[0]).toBe(first);
  see(inFlight, items([]), false);
  expect(inFlight.flying().count).toBe(0);
  expect(before.jobs().map(({ id, state }) => [id, state])).toEqual([
    ['a', 'ready'],
    ['b', 'ready'],
    ['c', 'ready'],
  ]);
  // a sort in place would corrupt the scheduler's memory
  expect(() => (before.jobs() as unknown[]).pop()).toThrow(TypeError);
  expect(() => ((first as { id: string }).id = 'z')).toThrow(TypeError);
});
