import { defineTask } from '@pgqueue/core';
import { settleAndHint } from '@pgqueue/postgres/internal';
import type { Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import type { TestNode, TestScheduler } from './support.ts';
import { countCalls, openBench, ticks, until } from './support.ts';

const task = defineTask({ name: 't', payload: z.object({ n: z.number() }) });
const bench = opened(openBench);
afterEach(() => bench.clear());

type Lease = Awaited<ReturnType<TestNode['claim']>>[number];

/** One key with a limit of one: a job of it runs, others wait, and the scheduler knows both. */
async function oneRunning({ jobs = 5 } = {}): Promise<{
  readonly node: TestNode;
  readonly scheduler: TestScheduler;
  readonly running: Lease;
}> {
  await bench.database.query(`insert into pgqueue.queue_config (queue, key_concurrency) values ('q', 1)`, []);
  const node = await bench.node();
  await bench.enqueue({ count: jobs, queue: 'q', key: 'k' });
  const scheduler = await bench.scheduler();
  const [running] = await until('a lease', async () => {
    const leases = await node.claim(1);
    return leases.length > 0 && leases;
  });
  if (running === undefined) throw new Error('there is a lease');
  const seen = ticks(scheduler).length;
  await bench.hint();
  await until('it to be seen', () => ticks(scheduler).length > seen + 1);
  return { node, scheduler, running };
}

const settled = ({ id, token }: Lease) => settleAndHint(bench.database, [done({ id, token })]);
const done = (lease: Lease) => ({ ...lease, outcome: 'done', delayMs: null, data: null }) as const;
const ready = (): Promise<number> => bench.count('work_queue', 'lock_key is null');

/** Says of a job that it has ended, so many times, and waits for the ticks that hear it. */
async function claimEnded(scheduler: TestScheduler, id: string, times: number): Promise<void> {
  for (let n = 0; n < times; n += 1) {
    const seen = ticks(scheduler).length;
    await bench.database.query(`select pg_notify('pgqueue:done', $1)`, [id]);
    await until('a tick', () => ticks(scheduler).length > seen);
  }
}

test('one job after the other goes, each when the last one ended', async () => {
  const { node, running } = await oneRunning();
  let last = running;
  for (let n = 1; n < 5; n += 1) {
    await settled(last);
    const [next] = await until('the next lease', async () => {
      const leases = await node.claim(5);
      expect(leases.length).toBeLessThanOrEqual(1);
      return leases.length > 0 && leases;
    });
    if (next === undefined) throw new Error('there is a lease');
    last = next;
  }
  await settled(last);
  expect(await bench.count('history')).toBe(5);
});

test('a hint that lies lets nothing go beyond a limit', async () => {
  const { scheduler, running } = await oneRunning();
  await claimEnded(scheduler, running.id, 20);
  expect([await bench.count('work_queue'), await ready()]).toEqual([1, 0]);
  await settled(running);
  await until('the next one', async () => (await ready()) === 1);
});

test('a job that waits for its retry holds the limit of its key no more, but counts as waiting', async () => {
  const { scheduler, running } = await oneRunning();
  await settleAndHint(bench.database, [{ ...done(running), outcome: 'retry', delayMs: 3_600_000 }]);
  await claimEnded(scheduler, running.id, 3);
  await until('the next one', async () => (await ready()) === 1);
  expect(await bench.count('queue', 'run_after is not null')).toBe(1);
});

test('a queue that was paused meanwhile stays paused', async () => {
  const { scheduler, running } = await oneRunning();
  await bench.database.query(`update pgqueue.queue_config set paused = true`, []);
  await settled(running);
  await claimEnded(scheduler, running.id, 5);
  expect(await ready()).toBe(0);
  await bench.database.query(`update pgqueue.queue_config set paused = false`, []);
  await bench.hint();
  await until('the next one', async () => (await ready()) === 1);
});

const producers: Producer[] = [];
afterEach(() => Promise.all(producers.splice(0).map((producer) => producer.close())));

function producer(): Producer {
  const made = createProducer({ connectionString: bench.test.url });
  producers.push(made);
  return made;
}

const dispatched = async (jobs: number): Promise<void> => {
  await until(`${jobs} work items`, async () => (await bench.count('work_queue')) === jobs);
};

/** One key after the other, so that each must be found. */
const enqueueOne = (by: Producer, n: number) => by.enqueueByName('t', { n }, { queue: 'q', key: `k${n}` });

/** Three jobs of a key, in one call. */
const enqueueThree = (by: Producer, n: number) =>
  by.enqueueMany([1, 2, 3].map((job) => task.job({ n: job }, { queue: 'q', key: `k${n}` })));

test.each<[string, number, (by: Producer, n: number) => Promise<unknown>]>([
  ['a job is dispatched by what its hint says, without a look', 1, enqueueOne],
  [
    'jobs that were enqueued together are dispatched by what their hint says, without a look',
    3,
    enqueueThree,
  ],
])('%s', async (_what, jobs, enqueue) => {
  const calls = await countCalls(bench.database, ['holds_true', 'look']);
  await bench.node({ slots: 1_000 });
  const scheduler = await bench.scheduler();
  const by = producer();
  for (let n = 1; n <= 40; n += 1) {
    await enqueue(by, n);
    await dispatched(jobs * n);
  }
  await scheduler.stop();
  const [supposed, looked] = await calls();
  expect(supposed).toBeGreaterThan(20);
  expect(looked).toBeLessThan(40);
});

test('a job is dispatched that no hint tells of, behind others that hints tell of', async () => {
  await bench.node({ slots: 1_000 });
  const scheduler = await bench.scheduler();
  const by = producer();
  const silent = createProducer({ connectionString: bench.test.url, notify: false });
  producers.push(silent);
  for (let n = 1; n <= 20; n += 1) {
    await enqueueOne(silent, -n);
    await enqueueOne(by, n);
    await dispatched(2 * n);
  }
  await scheduler.stop();
  expect(await ready()).toBe(40);
});

test.each([
  ['key', ['q', 'free']],
  ['queue', ['free', 'k']],
])('a hint that lies about a job’s %s lets nothing go beyond a limit', async (_what, [queue, key]) => {
  const { scheduler } = await oneRunning({ jobs: 1 });
  for (let n = 0; n < 10; n += 1) {
    const seen = ticks(scheduler).length;
    await bench.database.query(
      `with made as (insert into pgqueue.queue (task, queue, key) values ('t', 'q', 'k') returning id, seq, created)
       select pg_notify('pgqueue:queue', json_build_array(json_build_array(seq, pg_current_xact_id()::text, date_part('epoch', created) * 1000, id,
         $1::text, $2::text, 't', 1, 0, '{}'::jsonb))::text) from made`,
      [queue, key],
    );
    await until('a tick', () => ticks(scheduler).length > seen);
  }
  expect([await bench.count('work_queue'), await ready()]).toEqual([1, 0]);
});

test('a job whose transaction was long goes before a later one of its key, of which a hint tells', async () => {
  await bench.node({ slots: 100 });
  const scheduler = await bench.scheduler();
  const by = producer();
  const insert = `insert into pgqueue.queue (task, queue, key) values ('t', 'q', 'k1')`;
  for (let round = 1; round <= 10; round += 1) {
    await bench.database.transaction(async (transaction) => {
      await transaction.query(insert);
      await enqueueOne(by, 2); // the highest seq that was seen
      await dispatched(1);
    });
    await enqueueOne(by, 1);
    await until(
      'all to be dispatched',
      async () => (await bench.count('queue')) === (await bench.count('work_queue')),
    );
    const items = (await bench.items()).filter(({ key }) => key === 'k1');
    expect(items.map(({ seq }) => seq)).toEqual(items.map(({ seq }) => seq).toSorted((a, b) => a - b));
    // at once: a leader that saw the jobs without their work items would dispatch them again
    await bench.database.query(
      'with items as (delete from pgqueue.work_queue) delete from pgqueue.queue',
      [],
    );
    const seen = ticks(scheduler).length;
    await bench.hint();
    await until('it to be seen', () => ticks(scheduler).length > seen + 1);
  }
});
