import { settleAndHint } from '@pgqueue/postgres';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Bench, TestNode, TestScheduler } from './scheduler-support.ts';
import { openBench, ticks, until } from './scheduler-support.ts';

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
});
afterEach(() => bench.clear());
afterAll(() => bench.close());

type Lease = Awaited<ReturnType<TestNode['claim']>>[number];

/** One key with a limit of one: a job of it runs, others wait, and the scheduler knows both. */
async function oneRunning(): Promise<{
  readonly node: TestNode;
  readonly scheduler: TestScheduler;
  readonly running: Lease;
}> {
  await bench.database.query(`insert into pgqueue.queue_config (queue, key_concurrency) values ('q', 1)`, []);
  const node = await bench.node();
  await bench.enqueue({ count: 5, queue: 'q', key: 'k' });
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
