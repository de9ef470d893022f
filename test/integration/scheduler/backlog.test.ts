import { randomUUID } from 'node:crypto';
import { defineTask, implement } from '@pgqueue/core';
import type { BacklogDispatched, BacklogInput } from '@pgqueue/postgres/internal';
import { breaches, dispatchBacklog, lead, leadershipLostState, resign } from '@pgqueue/postgres/internal';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { countCalls, openBench, until } from './support.ts';

const bench = opened(openBench);
afterEach(async () => {
  const broken = await breaches(bench.database);
  if (broken.length > 0) throw new Error(`broken: ${JSON.stringify(broken)}`);
  await bench.clear();
});

const leader = 'backlog';

async function more(asked: Partial<BacklogInput> = {}): Promise<BacklogDispatched> {
  const { epoch } = await lead(bench.database, leader, 60_000);
  try {
    return await dispatchBacklog(bench.database, {
      leader,
      epoch,
      queue: 'default',
      key: '',
      priority: 0,
      after: -1,
      task: 't',
      version: 1,
      pool: 'default',
      jobs: 100,
      size: 10,
      slots: 4,
      wake: null,
      ...asked,
    });
  } finally {
    // schedulers of other tests lead at once
    await resign(bench.database, leader, epoch);
  }
}

/** Numbers of the waiting jobs, from 0 on in the order of their enqueuing, by the work items they are in. */
async function numbers(): Promise<readonly (readonly number[])[]> {
  const rows = await bench.database.query<{ jobs: number[] }>(
    `select array_agg(q.n order by u.at)::integer[] as jobs
     from pgqueue.work_queue w cross join lateral unnest(coalesce(w.jobs, array[w.id])) with ordinality as u (id, at)
     join (select id, row_number() over (order by seq) - 1 as n from pgqueue.queue) q on q.id = u.id
     group by w.position order by w.position`,
    [],
  );
  return rows.map(({ jobs }) => jobs);
}

const upTo = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from }, (_, n) => from + n);

test('makes batches of the next jobs, in order, and none of those in flight', async () => {
  await bench.enqueue({ count: 60 });
  const first = await more({ jobs: 25 });
  expect(first.items.map(({ size }) => size)).toEqual([10, 10, 5]);
  expect(first.more).toBe(true);
  expect(await numbers()).toEqual([upTo(0, 10), upTo(10, 20), upTo(20, 25)]);
  // from the beginning again: what has an item is passed over
  const second = await more({ jobs: 20 });
  expect(second.items.map(({ size }) => size)).toEqual([10, 10]);
  expect((await more({ jobs: 5, after: second.last, size: 1 })).items).toHaveLength(5);
  expect((await numbers()).flat()).toEqual(upTo(0, 50));
});

test('spreads the last jobs over the slots, and says that there are no more', async () => {
  await bench.enqueue({ count: 6 });
  const { items, more: follow } = await more();
  expect([items.map(({ size }) => size), follow]).toEqual([[2, 2, 2], false]);
  expect(await more()).toMatchObject({ items: [], more: false });
});

const other = {
  'another task': "task = 'other'",
  'another version': 'payload_version = 2',
  'attributes that a rule may see': `attributes = '{"a": 1}'`,
  'a deadline': "expires_at = now() + interval '1 day'",
  'a try behind it': 'tries = 1',
  'a crash behind it': 'crashes = 1',
} as const;

test.each(Object.entries(other))('stops before a job with %s', async (_, change) => {
  await bench.enqueue({ count: 20 });
  await bench.database.query(
    `update pgqueue.queue set ${change} where id = (select id from pgqueue.queue order by seq offset 7 limit 1)`,
    [],
  );
  expect((await more()).more).toBe(false);
  expect((await numbers()).flat()).toEqual(upTo(0, 7));
});

test('takes only what waits in its lane at its priority', async () => {
  await bench.enqueue({ count: 3, priority: 1 });
  await bench.enqueue({ count: 3, key: 'a' });
  await bench.enqueue({ count: 3, queue: 'q' });
  await bench.enqueue({ count: 3, runAfter: "now() + interval '1 hour'" });
  await bench.enqueue({ count: 3 });
  await more();
  expect((await numbers()).flat()).toEqual(upTo(12, 15));
});

test('passes over jobs that a transaction has locked', async () => {
  await bench.enqueue({ count: 10 });
  const client = new pg.Client({ connectionString: bench.test.url });
  await client.connect();
  try {
    await client.query('begin');
    await client.query('select id from pgqueue.queue order by seq limit 2 for update');
    await more();
    expect((await numbers()).flat()).toEqual(upTo(2, 10));
  } finally {
    await client.end();
  }
});

test('writes nothing for a scheduler that does not lead', async () => {
  await bench.enqueue({ count: 10 });
  await expect(more({ epoch: 99 })).rejects.toMatchObject({ code: leadershipLostState });
  expect(await numbers()).toEqual([]);
});

const quick = defineTask({ name: 'quick', payload: z.object({ n: z.number() }) });

/** A worker whose runs are noted. */
async function worker(
  concurrency: number,
): Promise<{ readonly ran: number[]; readonly stop: () => Promise<void> }> {
  const ran: number[] = [];
  const started = createWorker({
    connectionString: bench.test.url,
    node: `node-${randomUUID()}`,
    concurrency,
    tasks: [implement(quick, ({ n }) => void ran.push(n))],
  });
  await started.start();
  return { ran, stop: () => started.stop() };
}

const fill = (from: number, to: number, more = ''): Promise<unknown> =>
  bench.database.query(
    `insert into pgqueue.queue (task, payload${more === '' ? '' : ', key'})
     select 'quick', jsonb_build_object('n', n)${more} from generate_series($1::integer, $2::integer - 1) n`,
    [from, to],
  );

test('a scheduler dispatches a backlog so, each job once and in order', async () => {
  const calls = await countCalls(bench.database, ['dispatch_backlog']);
  const { ran, stop } = await worker(1);
  await fill(0, 3_000);
  const scheduler = await bench.scheduler();
  try {
    await until('all to run', async () => (await bench.count('queue')) === 0);
  } finally {
    await stop();
    await scheduler.stop();
  }
  expect(ran).toEqual(upTo(0, 3_000));
  expect((await calls())[0]).toBeGreaterThan(0);
});

test('a job of another key does not wait for a backlog, and a limit that is set meanwhile holds', async () => {
  const { ran, stop } = await worker(4);
  await fill(0, 60_000);
  const scheduler = await bench.scheduler();
  try {
    await until('the backlog to flow', () => ran.length > 2_000);
    await fill(100_000, 100_001, ", 'other'");
    await until('the other job', () => ran.includes(100_000));
    expect(ran.length).toBeLessThan(60_000);
    await bench.database.query(
      "insert into pgqueue.queue_config (queue, concurrency) values ('default', 0)",
      [],
    );
    await until('a pause', async () => (await bench.count('work_queue')) === 0);
    const before = ran.length;
    expect(await bench.count('queue')).toBe(60_001 - before);
    await bench.database.query('update pgqueue.queue_config set concurrency = null', []);
    await until('the rest', async () => (await bench.count('queue')) === 0);
  } finally {
    await stop();
    await scheduler.stop();
  }
  expect(new Set(ran).size).toBe(60_001);
  expect(ran).toHaveLength(60_001);
});
