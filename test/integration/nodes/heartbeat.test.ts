import { defineTask, implement } from '@pgqueue/core';
import { createScheduler } from '@pgqueue/scheduler';
import type { Scheduler } from '@pgqueue/scheduler';
import { createPuller } from '@pgqueue/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
let scheduler: Scheduler;
beforeEach(async () => {
  scheduler = createScheduler({ connectionString: bench.test.url });
  await scheduler.start();
});
afterEach(async () => {
  await scheduler.stop();
  await bench.clear();
});

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });
// far longer than a busy machine keeps a heartbeat waiting
const clocks = { node: 'a', heartbeatMs: 100, lostAfterMs: 60_000 };

/** Holds a job while five heartbeats come; the node must have been alone with it. */
async function holdsOn(worker: TestWorker, letGo: () => void): Promise<void> {
  const { id } = await bench.producer.enqueue(task, {});
  await until('it to run', () => worker.of('job.started').length === 1);
  const beats = new Set<unknown>();
  await until('five heartbeats', async () => {
    const [row] = await bench.sql(`select heartbeat::text as beat from pgqueue.node where id = 'a'`);
    return beats.add(row?.['beat']).size > 5;
  });
  letGo();
  await until('it to be done', async () => (await bench.job(id)).status === 'done');
  expect(await bench.job(id)).toMatchObject({ node: 'a', tries: 0, crashes: 0 });
  expect(worker.of('node.ended')).toEqual([]);
}

const beating = (): Promise<readonly Record<string, unknown>[]> =>
  bench.sql(
    `select pid from pg_stat_activity where datname = current_database() and application_name = 'pgqueue a heartbeat'`,
  );

test('heartbeats come from a thread, on a connection of its own; one that is killed is made anew', async () => {
  const gate = Promise.withResolvers<void>();
  const worker = await bench.worker([implement(task, () => gate.promise)], clocks);
  const [first] = await until('its connection', async () => {
    const rows = await beating();
    return rows.length === 1 && rows;
  });
  await bench.sql('select pg_terminate_backend($1)', [first?.['pid']]);
  await until('another one', async () => {
    const rows = await beating();
    return rows.length === 1 && rows[0]?.['pid'] !== first?.['pid'];
  });
  await holdsOn(worker, gate.resolve);
  expect(worker.of('node.thread_failed')).toEqual([]);
  await worker.stop();
  expect(await beating()).toEqual([]);
});

const session = async (): Promise<unknown> =>
  (await bench.sql(`select pid from pgqueue.node_session where node = 'a'`))[0]?.['pid'];

test.each([
  ['a thread', () => bench.worker([implement(task, () => null)], { ...clocks, heartbeatMs: 30_000 })],
  [
    'the event loop',
    () =>
      bench.worker([implement(task, () => null)], { ...clocks, heartbeatMs: 30_000, heartbeatThread: false }),
  ],
  [
    'a puller',
    async () => {
      const puller = createPuller({
        ...clocks,
        heartbeatMs: 30_000,
        connectionString: bench.test.url,
        tasks: ['task'],
      });
      await puller.claim();
      return { stop: () => puller.close() };
    },
  ],
])(
  'the session in which %s beats is known from the start, and so is the next one when it breaks',
  async (_name, start) => {
    const node = await start();
    const first = await until('its session', session);
    expect(await beating()).toEqual([{ pid: first }]);
    await bench.sql('select pg_terminate_backend($1)', [first]);
    // long before the next heartbeat
    await until('the next one', async () => (await session()) !== first);
    expect(await beating()).toEqual([{ pid: await session() }]);
    await node.stop();
    expect(await session()).toBeUndefined();
  },
);

test('where the thread can not start, the node says so, and beats from its event loop', async () => {
  const gate = Promise.withResolvers<void>();
  const heartbeatThread = new URL('../../support/actors/broken-thread.ts', import.meta.url);
  const warnings: (Error & { readonly code?: string })[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on('warning', note);
  const worker = await bench.worker([implement(task, () => gate.promise)], { ...clocks, heartbeatThread });
  await until('it to say so', () => worker.of('node.thread_failed').length > 0);
  expect(worker.of('node.thread_failed')[0]).toMatchObject({
    node: 'a',
    error: { message: 'this thread does not start' },
  });
  await holdsOn(worker, gate.resolve);
  await until('more tries, ever less often', () => {
    const tries = worker.of('node.thread_failed').map(({ retryMs }) => retryMs);
    return Number(tries.at(-1)) > 2 * Number(tries[0]);
  });
  expect(await beating()).toEqual([{ pid: await session() }]);
  process.off('warning', note);
  // nobody may listen to the events; said once, however often it fails
  const told = warnings.filter(({ code }) => code === 'PGQUEUE_NO_HEARTBEAT_THREAD');
  expect(told).toHaveLength(1);
  expect(told[0]?.message).toContain('the heartbeat thread of node a has failed: this thread does not start');
});
