import type { LaneRow, TickRead } from '@pgqueue/postgres';
import { expect, test } from 'vitest';
import { createMemory } from './memory.ts';
import { lanesToReadOn, stockLastsMs } from './stock.ts';

const row = (key: string, seq: number, over: Partial<LaneRow> = {}): LaneRow => ({
  queue: 'q',
  key,
  paged: true,
  ahead: false,
  wanted: 300,
  retryDueMs: null,
  id: `${key}${seq}`,
  seq,
  priority: 0,
  task: 't',
  version: 1,
  rowVersion: '7',
  createdMs: 0,
  expiresMs: null,
  tries: 0,
  attributes: {},
  ...over,
});

const rows = (key: string, from: number, to: number, over?: Partial<LaneRow>) =>
  Array.from({ length: to - from }, (_, n) => row(key, from + n, over));
const ids = (key: string, from: number, to: number) => rows(key, from, to).map(({ id }) => id ?? '');
const jobs = (named: readonly string[]) => named.map((id) => ({ id, pool: 'default' }));

/** A busy lane: 300 jobs of it were known, the first 100 went. */
function busy() {
  const memory = createMemory(1_000);
  const { view, cursors } = memory;
  cursors.ranges(0, () => undefined);
  view.see(rows('a', 0, 300), { keys: 2, nowMs: 0 });
  const went = ids('a', 0, 100);
  view.wrote(went, new Map(went.map((id, position) => [id, position])));
  memory.lastLook = { read: {} as TickRead, config: '', atMs: 1_000 };
  memory.room = 100;
  return memory;
}

test('ticks live from what is known of busy lanes, for 50 ms, or 20 where something new was heard of', () => {
  const memory = busy();
  expect([stockLastsMs(memory, 1_010, false), stockLastsMs(memory, 1_010, true)]).toEqual([40, 10]);
  expect([stockLastsMs(memory, 1_030, true), stockLastsMs(memory, 1_050, false)]).toEqual([
    undefined,
    undefined,
  ]);
  memory.room = 201;
  expect(stockLastsMs(memory, 1_010, false)).toBeUndefined();
  memory.room = 0;
  memory.view.want([['1:qa', 5]]);
  expect(stockLastsMs(memory, 1_010, false)).toBeUndefined();
});

test('lanes of which little goes are no stock', () => {
  const memory = createMemory(1_000);
  memory.cursors.ranges(0, () => undefined);
  memory.view.see(rows('a', 0, 300), { keys: 2, nowMs: 0 });
  memory.lastLook = { read: {} as TickRead, config: '', atMs: 1_000 };
  memory.room = 1;
  expect(stockLastsMs(memory, 1_010, false)).toBeUndefined();
  expect(lanesToReadOn(memory, jobs(ids('a', 0, 200)), 200)).toEqual([]);
});

test('a lane is read on behind the last job that is known, when another plan like this one might use it up', () => {
  const memory = busy();
  expect(lanesToReadOn(memory, jobs(ids('a', 100, 180)), 80)).toEqual([]);
  expect(lanesToReadOn(memory, jobs(ids('a', 100, 180)), 100)).toEqual([
    { queue: 'q', key: 'a', behind: [0, 299], depth: 180 },
  ]);
  expect(lanesToReadOn(memory, jobs(ids('a', 100, 160)), 1_000)).toEqual([]);
});

test('what was read on stands behind what was known, also where all of that went', () => {
  const { view } = busy();
  const rest = ids('a', 100, 300);
  view.wrote(rest, new Map(rest.map((id, position) => [id, position])));
  expect(view.wants()).toBe(true);
  view.extend(rows('a', 300, 310, { wanted: 10 }));
  expect(view.wants()).toBe(false);
  expect(view.tail('1:qa')).toMatchObject({ known: 10, last: { id: 'a309' } });
  expect(view.lanes()).toMatchObject([{ key: 'a', more: true, fresh: false }]);
  view.extend([row('a', 310)]);
  expect([view.tail('1:qa'), view.lanes()[0]?.jobs.length]).toEqual([undefined, 11]);
});

test('nothing is put behind what is known twice, or in a lane that is gone, or where one of it was refused lately', () => {
  const { view } = busy();
  view.extend([row('b', 1), row('a', 250)]);
  expect(view.lanes()).toMatchObject([{ key: 'a', jobs: { length: 200 } }]);
  view.wrote(['a100'], new Map());
  view.extend([row('a', 300), row('a', 100)]);
  expect(view.lanes()).toMatchObject([{ key: 'a', jobs: { length: 199 } }]);
});
