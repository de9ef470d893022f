import type { Lane, Policy } from '@pgqueue/core';
import { afterEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { countCalls, openBench, ticks, until } from './support.ts';

const bench = opened(openBench);
afterEach(() => bench.clear());

const itemsReach = (count: number) =>
  until(`${count} work items`, async () => {
    const items = await bench.items();
    return items.length >= count && items;
  });

test('a tick writes keys in turn, each by priority and then as enqueued', async () => {
  await bench.node({ slots: 100 });
  await bench.enqueue({ count: 2, key: 'b' });
  await bench.enqueue({ count: 3, key: 'a', priority: 1 });
  await bench.enqueue({ count: 1, key: 'a', priority: -1 });
  await bench.scheduler();
  const items = await itemsReach(6);
  expect(items.map(({ key, seq }) => `${key}${seq}`)).toEqual(['b1', 'a6', 'b2', 'a3', 'a4', 'a5']);
  expect(new Set(items.map(({ dispatched }) => dispatched)).size).toBe(1);
});

test('10,000 jobs of one key do not make another key wait', async () => {
  const node = await bench.node({ slots: 20 });
  await bench.enqueue({ count: 10_000, key: 'A' });
  await bench.scheduler();
  await itemsReach(20);
  await bench.enqueue({ count: 10, key: 'B' });
  const first = await node.claim(20);
  await node.done(first);
  await bench.hint();
  const served = await until('all of B', async () => {
    await node.done(await node.claim(20));
    const dispatched = await bench.database.query<{ n: number }>(
      `select count(*)::integer as n from pgqueue.history where key = 'B'`,
      [],
    );
    return dispatched[0]?.n === 10;
  });
  expect(served).toBe(true);
  expect(await bench.count('history', `key = 'A'`)).toBeLessThan(1_000);
});

test('work items are as many as there are free slots', async () => {
  const node = await bench.node({ slots: 7 });
  await bench.enqueue({ count: 100 });
  const scheduler = await bench.scheduler({ horizonMs: 0 });
  await itemsReach(7);
  const claimed = await node.claim(7);
  await bench.hint();
  await until('a tick with all slots busy', () =>
    ticks(scheduler).some(({ held }) => held['no_free_slot'] !== undefined),
  );
  expect(await bench.items()).toHaveLength(7);
  await node.done(claimed.slice(0, 3));
  await until('three more', async () => {
    const items = await bench.items();
    return items.filter(({ leased }) => !leased).length === 3;
  });
  expect(await bench.count('work_queue')).toBe(7);
});

test('busy nodes of one task do not use up the places of idle ones of another', async () => {
  await bench.node({ id: 'video', slots: 2, tasks: { video: { min: 1, max: 1 } } });
  await bench.node({ id: 'mail', slots: 2, tasks: { mail: { min: 1, max: 1 } } });
  await bench.enqueue({ count: 3_000, task: 'video' });
  await bench.enqueue({ count: 5, task: 'mail' });
  await bench.scheduler();
  const items = await itemsReach(4);
  expect(items.map(({ task }) => task).toSorted()).toEqual(['mail', 'mail', 'video', 'video']);
});

test('a paused queue waits, and goes on when it is resumed', async () => {
  await bench.node();
  await bench.database.query(`insert into pgqueue.queue_config (queue, paused) values ('slow', true)`, []);
  await bench.enqueue({ count: 1, queue: 'slow' });
  const scheduler = await bench.scheduler();
  await until('a tick', () => ticks(scheduler).length > 2);
  expect(ticks(scheduler).at(-1)?.held).toEqual({ paused_queue: 1 });
  expect(await bench.items()).toEqual([]);
  await bench.database.query(`update pgqueue.queue_config set paused = false`, []);
  await itemsReach(1);
});

test('a job that no node can run is held until one comes', async () => {
  await bench.node({ id: 'old', tasks: { t: { min: 1, max: 1 } } });
  await bench.enqueue({ count: 1, version: 2 });
  await bench.enqueue({ count: 1, version: 1 });
  const scheduler = await bench.scheduler();
  const items = await itemsReach(1);
  expect(items.map(({ seq }) => seq)).toHaveLength(1);
  const tick = await until('the tick that wrote it', () => ticks(scheduler).at(-1));
  expect(tick.held).toEqual({ no_capable_node: 1 });
  await bench.node({ id: 'new', tasks: { t: { min: 1, max: 2 } } });
  await itemsReach(2);
});

test('5,000 jobs that nobody can run do not hide those behind them', async () => {
  await bench.node({ slots: 10 });
  await bench.enqueue({ count: 5_000, task: 'unknown' });
  await bench.enqueue({ count: 3 });
  await bench.scheduler();
  expect((await itemsReach(3)).map(({ task }) => task)).toEqual(['t', 't', 't']);
  await bench.enqueue({ count: 1, priority: -1 });
  await bench.enqueue({ count: 1 });
  expect((await itemsReach(5)).map(({ task }) => task)).toEqual(['t', 't', 't', 't', 't']);
});

const waiting = (lanes: readonly Lane[]) => lanes.flatMap(({ jobs }) => jobs);

test.each<[string, Policy['plan']]>([
  [
    'throws',
    () => {
      throw new Error('broken');
    },
  ],
  ['returns unknown jobs', (_, state) => ({ dispatch: [{ id: 'x', pool: 'default' }], held: {}, state })],
  [
    'returns a job twice',
    ({ lanes }, state) => ({
      dispatch: [...waiting(lanes), ...waiting(lanes)].map(({ id }) => ({ id, pool: 'default' })),
      held: {},
      state,
    }),
  ],
  [
    'returns more than the slots',
    ({ lanes }, state) => ({
      dispatch: waiting(lanes).map(({ id }) => ({ id, pool: 'default' })),
      held: {},
      state,
    }),
  ],
  ['returns nothing', () => undefined as never],
])('a policy that %s is reported, and its ticks are FIFO per key', async (_, plan) => {
  await bench.node({ slots: 4 });
  await bench.enqueue({ count: 20, key: 'a' });
  await bench.enqueue({ count: 20, key: 'b' });
  const scheduler = await bench.scheduler({
    policy: { name: 'bad', initial: {}, plan },
  });
  const items = await itemsReach(4);
  expect(items.map(({ key }) => key)).toEqual(['a', 'b', 'a', 'b']);
  expect(scheduler.events).toContainEqual(expect.objectContaining({ type: 'policy.failed', policy: 'bad' }));
});

test('the state of a policy is saved with its batch, and the next leader begins from it', async () => {
  const node = await bench.node({ slots: 1 });
  for (const key of ['a', 'b', 'c']) await bench.enqueue({ count: 5, key });
  const first = await bench.scheduler({ horizonMs: 0 });
  await itemsReach(1);
  await first.stop();
  expect(await bench.count('policy_state', `part = 'fair_share' and state::text like '%"a"%'`)).toBe(1);
  await node.done(await node.claim(1));
  await bench.scheduler({ horizonMs: 0 });
  expect((await itemsReach(1)).map(({ key }) => key)).toEqual(['b']);
});

test('jobs that end let the next ones go without another look at what waits, and what is enqueued meanwhile is seen', async () => {
  const calls = await countCalls(bench.database, ['look', 'tick_state']);
  await bench.database.query(
    `insert into pgqueue.queue_config (queue, key_concurrency) values ('default', 1)`,
    [],
  );
  const node = await bench.node({ slots: 10 });
  await bench.enqueue({ count: 60, key: 'a' });
  const scheduler = await bench.scheduler();
  const seqs: number[] = [];
  for (let n = 0; n < 90; n += 1) {
    // urgent, and nobody says that they were enqueued
    if (n === 30) await bench.enqueue({ count: 30, key: 'a', priority: -1 });
    const [job] = await until(`job ${n}`, async () => {
      const [item] = await bench.items();
      if (item !== undefined) seqs.push(item.seq);
      return item !== undefined && (await node.claim(1));
    });
    if (job !== undefined) await node.done([job]);
  }
  await scheduler.stop();
  const [first = 0] = seqs;
  const all = Array.from({ length: 90 }, (_, n) => first + n);
  expect(seqs.slice(0, 30)).toEqual(all.slice(0, 30));
  expect(seqs.toSorted((a, b) => a - b)).toEqual(all);
  // the next full look is never far away
  expect(seqs.indexOf(first + 60)).toBeLessThan(60);
  const [looks = 0, ticksMade = 0] = await calls();
  // most of them on an idle machine; where each takes 50 ms, none
  expect(looks).toBeLessThan(ticksMade);
});
