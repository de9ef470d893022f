import { defineTask, implement } from '@pgqueue/core';
import type { TaskHandler } from '@pgqueue/core';
import { createRouter, homeOf } from '@pgqueue/router';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { until } from '../../support/until.ts';
import { nth, useRunning, useSeveral } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const { several, router } = useSeveral(2);
const keyOf = (home: number): string =>
  Array.from({ length: 99 }, (_, n) => `k${n}`).find((key) => homeOf(key, [1, 2]) === home) ?? '';
const [first, second] = [keyOf(1), keyOf(2)];

const { running, schedule } = useRunning(several);

/** Jobs in the order in which their handlers began, and how many ran at a time at most. */
function recorder(also: (n: number) => Promise<void> = () => Promise.resolve()): {
  readonly handler: TaskHandler;
  readonly ran: number[];
  readonly most: () => number;
} {
  const ran: number[] = [];
  let now = 0;
  let most = 0;
  const handler = implement(task, async ({ n }) => {
    ran.push(n);
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setTimeout(resolve, 2));
    await also(n);
    now -= 1;
  });
  return { handler, ran, most: () => most };
}

test('one worker serves all installations with one set of slots, and none waits for the backlog of another', async () => {
  const { handler, ran, most } = recorder(async (n) => {
    // the backlog of the first one does not end before the jobs of the second one have run
    if (n < 1_000 && ofSecond() < 20) await router.producer.enqueue(task, { n: 999 }, { key: first });
  });
  const ofSecond = (): number => ran.filter((n) => n >= 1_000).length;
  const jobs = Array.from({ length: 40 }, (_, n) => task.job({ n }, { key: first }));
  await router.producer.enqueueMany(jobs);
  await router.producer.enqueueMany(
    Array.from({ length: 20 }, (_, n) => task.job({ n: 1_000 + n }, { key: second })),
  );
  await schedule(1, 2);
  const worker = router.worker({ tasks: [handler], concurrency: 2 });
  running.push(worker);
  await worker.start();
  await until('the jobs of the second one have run', () => ofSecond() === 20);
  const left = async (): Promise<number> =>
    nth(several.databases, 0)
      .query('select from pgqueue.queue', [])
      .then(({ length }) => length);
  await until('all jobs are done', async () => (await left()) === 0);
  expect(ran.filter((n) => n < 40).toSorted((a, b) => a - b)).toEqual(jobs.map((_, n) => n));
  expect(most()).toBe(2);
  await worker.stop();
  expect(worker.running).toBe(0);
  await worker.ended;
  for (const operator of several.operators) {
    expect(await operator.nodes.list()).toMatchObject([{ state: 'left' }]);
    expect((await operator.status()).totals).toMatchObject({ pending: 0, ready: 0, running: 0 });
  }
});

test('results come back through the router', async () => {
  await schedule(1, 2);
  const sum = defineTask({ name: 'sum', payload: z.object({ n: z.number() }), result: z.number() });
  const worker = router.worker({ tasks: [implement(sum, ({ n }) => n + 1)], concurrency: 3 });
  running.push(worker);
  await worker.start();
  const jobs = await router.producer.enqueueMany([first, second].map((key, n) => sum.job({ n }, { key })));
  expect(await Promise.all(jobs.map((job) => router.producer.result(job)))).toEqual([1, 2]);
});

test('claims that a database does not answer keep no slot from the others', async () => {
  await schedule(1);
  const { handler, ran } = recorder();
  const worker = router.worker({ tasks: [handler], concurrency: 1 });
  running.push(worker);
  await worker.start();
  const client = await nth(several.databases, 1).pool.connect();
  try {
    await client.query('begin');
    await client.query('lock table pgqueue.work_queue in access exclusive mode');
    await until('a claim hangs', async () => {
      // not within the transaction: it would see the first look's answer again
      const rows = await nth(several.databases, 1).query(
        `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        [],
      );
      return rows.length > 0;
    });
    await router.producer.enqueueMany(Array.from({ length: 50 }, (_, n) => task.job({ n }, { key: first })));
    await until('the others work', () => ran.length === 50);
    expect(worker.running).toBeLessThanOrEqual(1);
  } finally {
    await client.query('rollback');
    client.release();
  }
  await schedule(2);
  await router.producer.enqueue(task, { n: 50 }, { key: second });
  await until('and it, once it answers', () => ran.length === 51);
});

test('an installation that is down does not keep the others from work; one that is wrong stops all', async () => {
  await schedule(1);
  const nowhere = 'postgres://postgres@127.0.0.1:1/nowhere';
  const partly = createRouter({
    installations: [
      nth(several.installations, 0),
      { ...nth(several.installations, 1), connectionString: nowhere },
    ],
  });
  const swapped = createRouter({
    installations: [
      nth(several.installations, 0),
      { ...nth(several.installations, 1), number: 3, name: 'three' },
    ],
  });
  try {
    const { handler, ran } = recorder();
    const worker = partly.worker({ tasks: [handler], concurrency: 2 });
    running.push(worker);
    const starting = worker.start();
    await partly.producer.enqueue(task, { n: 1 }, { key: first });
    await until('the job is done', () => ran.length === 1);
    await starting;
    await worker.stop();
    const wrong = swapped.worker({ tasks: [handler] });
    await expect(wrong.start()).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringContaining('its database says number 2 (two)') as string,
    });
    await wrong.stop();
  } finally {
    await Promise.all([partly.close(), swapped.close()]);
  }
});

test('one that is wrong, and answers after the start, ends the worker with an error', async () => {
  const proxy = await startCutProxy(nth(several.installations, 1).connectionString);
  proxy.hold('to-client');
  const late = createRouter({
    installations: [nth(several.installations, 0), { number: 3, name: 'three', connectionString: proxy.url }],
  });
  try {
    const worker = late.worker({ tasks: [recorder().handler] });
    running.push(worker);
    await worker.start();
    proxy.hold(undefined);
    await expect(worker.ended).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringContaining('its database says number 2 (two)') as string,
    });
  } finally {
    await late.close();
    await proxy.close();
  }
});

test('wrong options are refused before any I/O', async () => {
  const { handler } = recorder();
  expect(() => router.worker({ tasks: [] })).toThrow(/tasks is empty/);
  expect(() => router.worker({ tasks: [handler], concurrency: 0 })).toThrow(/concurrency/);
  const worker = router.worker({ tasks: [handler] });
  running.push(worker);
  await expect(worker.stop({ drainMs: Infinity })).rejects.toMatchObject({ code: 'configuration' });
  await worker.start(); // nothing was stopped
});
