import { randomUUID } from 'node:crypto';
import type { BatchContext, BatchJob } from '@pgqueue/core';
import { defineTask, implement, implementBatch, policy, turns } from '@pgqueue/core';
import { registerNode, resetNode } from '@pgqueue/postgres/internal';
import { createScheduler } from '@pgqueue/scheduler';
import { createPuller } from '@pgqueue/worker';
import type { WorkerOptions } from '@pgqueue/worker';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';
import { dispatchBundles, overlaps, recordLeases } from '../sql/bundles-support.ts';

const bench = opened(openWorkerBench);
const stops: (() => Promise<unknown>)[] = [];
beforeAll(() => bench.sql(recordLeases));
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
  await bench.clear();
  await bench.sql('truncate bundle_lease, pgqueue.queue_config');
  await bench.sql(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity'`);
});

const payload = z.object({ n: z.number() });
const retry = { maxTries: 1_000, maxCrashes: 1_000, base: 10, backoff: 'fixed', jitter: 0 } as const;
const send = defineTask({ name: 'send', payload, retry });
const other = defineTask({ name: 'other', payload, retry });
type Job = BatchJob<{ n: number }>;
type Handler = (jobs: readonly Job[], context: BatchContext) => unknown;

/** Coalesces `send`. */
async function scheduler(max: number, ageMs: number): Promise<void> {
  const coalesce = [{ when: ({ task }: { readonly task: string }) => task === 'send', max, ageMs }];
  const leading = createScheduler({
    connectionString: bench.test.url,
    policy: policy({ order: turns(), coalesce }),
    policyBudgetMs: 10_000, // no plan is cut off on a busy machine
    pollMs: { min: 5, max: 50 },
  });
  stops.push(() => leading.stop());
  await leading.start();
}

const worker = (handler: Handler, options: Partial<WorkerOptions> = {}): Promise<TestWorker> =>
  bench.worker([implementBatch(send, handler)], options);

async function enqueue(count: number, options: { readonly key?: string } = {}): Promise<readonly string[]> {
  const jobs = Array.from({ length: count }, (_, index) => send.job({ n: index + 1 }, options));
  return (await bench.producer.enqueueMany(jobs)).map(({ id }) => id);
}

const done = (count: number): Promise<unknown> =>
  until(`${count} jobs to be done`, async () => {
    const [row] = await bench.sql(
      `select count(*)::integer as n from pgqueue.history where outcome = 'done'`,
    );
    return row?.['n'] === count;
  });

describe('coalesced jobs', () => {
  test('go at once as far as batches are full, the rest when its first has waited so long', async () => {
    const sizes: number[] = [];
    await worker((jobs) => void sizes.push(jobs.length));
    await enqueue(8);
    await scheduler(3, 600);
    await done(8);
    expect(sizes).toEqual([3, 3, 2]);
    const waits = await bench.sql(
      `select (extract(epoch from started - created) * 1000)::integer as ms from pgqueue.history order by started, id`,
    );
    expect(Number(waits.at(-2)?.['ms'])).toBeGreaterThanOrEqual(599);
  });

  test('are of one key and task', async () => {
    const batches: string[][] = [];
    await bench.worker([
      implementBatch(send, (jobs) => void batches.push(jobs.map(({ key }) => key))),
      implementBatch(other, (jobs) => void batches.push(jobs.map(({ task }) => task))),
    ]);
    const keys = ['a', 'b', 'a', 'b', 'a', 'b'];
    const jobs = keys.flatMap((key, n) => [send.job({ n }, { key }), other.job({ n }, { key })]);
    await bench.producer.enqueueMany(jobs);
    await scheduler(3, 60_000);
    await done(12);
    expect(batches.toSorted((a, b) => (a[0] ?? '').localeCompare(b[0] ?? ''))).toEqual([
      ['a', 'a', 'a'],
      ['b', 'b', 'b'],
      ...keys.map(() => ['other']),
    ]);
  });

  test('that failed together come again, together', async () => {
    const tries: number[][] = [];
    await worker((jobs) => {
      tries.push(jobs.map((job) => job.tries));
      if (tries.length < 3) throw new Error('not yet');
    });
    await enqueue(4);
    await scheduler(4, 60_000);
    await done(4);
    expect(tries).toEqual([0, 1, 2].map((count) => [count, count, count, count]));
  });

  test('do not die of one among them: whoever would be dead the next time goes alone', async () => {
    const sizes: number[] = [];
    await worker((jobs) => {
      sizes.push(jobs.length);
      if (jobs.some(({ payload: { n } }) => n === 2)) throw new Error('poison');
    });
    const jobs = [1, 2, 3, 4].map((n) => send.job({ n }, { retry: { maxTries: 3 } }));
    const ids = (await bench.producer.enqueueMany(jobs)).map(({ id }) => id);
    await scheduler(4, 60_000);
    await done(3);
    await until('the poison to be dead', async () => (await bench.job(ids[1] ?? '')).status === 'dead');
    expect(sizes).toEqual([4, 4, 1, 1, 1, 1]);
  });

  test('of a node that died in the middle are run by another, one by one: one of them may have been why', async () => {
    const dead = { node: 'dead', incarnation: randomUUID() };
    const tasks = { send: { min: 1, max: 1, timeoutMs: 3_600_000, batch: true } };
    await registerNode(bench.database, {
      ...dead,
      tasks,
      slots: 1,
      pool: 'default',
      heartbeatMs: 5_000,
      lostAfterMs: 60_000,
      software: 'test',
      seen: null,
    });
    await enqueue(5);
    await scheduler(5, 60_000);
    await until('its claim', async () => {
      const taken = await bench.sql(`select id from pgqueue.claim('dead', $1, 1)`, [dead.incarnation]);
      return taken.length === 5;
    });
    await resetNode(bench.database, 'dead');
    const seen: object[] = [];
    await worker((jobs) => void seen.push({ jobs: jobs.length, crashes: jobs[0]?.crashes }));
    await done(5);
    expect(seen).toEqual(Array.from({ length: 5 }, () => ({ jobs: 1, crashes: 1 })));
  });
});

test('eight nodes race for batches of keys with limit 1: no job is lost or done twice, no key runs twice at once', async () => {
  await bench.sql(`insert into pgqueue.queue_config (queue, key_concurrency) values ('default', 1)`);
  const keys = Array.from({ length: 12 }, (_, n) => `key ${n}`);
  const perKey = 60;
  const running = new Map<string, number>();
  let most = 0;
  let calls = 0;
  const handler: Handler = async (jobs) => {
    const key = jobs[0]?.key ?? '';
    calls += 1;
    const call = calls;
    running.set(key, (running.get(key) ?? 0) + 1);
    most = Math.max(most, running.get(key) ?? 0);
    await new Promise((resolve) => setImmediate(resolve));
    running.set(key, (running.get(key) ?? 0) - 1);
    if (call % 7 === 0) throw new Error('all of them');
    return jobs.map((_job, index) => (call % 5 === 0 && index % 3 === 0 ? new Error('this one') : null));
  };
  const nodes = Array.from({ length: 8 }, (_, n) => worker(handler, { concurrency: 1 + (n % 3) }));
  await Promise.all(nodes);
  for (const key of keys) await enqueue(perKey, { key });
  await scheduler(8, 30);
  await done(keys.length * perKey);
  expect(most).toBe(1);
  expect(calls).toBeLessThan(keys.length * perKey);
  expect(await bench.sql(overlaps)).toEqual([]);
  expect(await bench.sql('select id from pgqueue.history group by id having count(*) > 1')).toEqual([]);
});

describe('where a node takes no bundles', () => {
  test('its jobs go one by one, at once, and each counts by itself', async () => {
    await bench.sql(`insert into pgqueue.queue_config (queue, key_concurrency) values ('default', 2)`);
    let running = 0;
    let most = 0;
    await bench.worker(
      [
        implement(send, async () => {
          most = Math.max(most, (running += 1));
          await new Promise((resolve) => setTimeout(resolve, 5));
          running -= 1;
        }),
      ],
      { concurrency: 10 },
    );
    await enqueue(12, { key: 'acme' });
    await scheduler(4, 600_000);
    await done(12);
    expect(most).toBe(2);
  });

  test('bundles that no node is left for are planned anew, one by one', async () => {
    const ids = await enqueue(4);
    await dispatchBundles(bench.database, [ids]);
    await bench.sql(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity'`);
    const seen: number[] = [];
    await bench.worker([implement(send, ({ n }) => void seen.push(n))], { concurrency: 1 });
    await scheduler(4, 600_000);
    await done(4);
    expect(seen).toEqual([1, 2, 3, 4]);
  });

  test('a puller that takes bundles gets them whole, in one slot', async () => {
    const whole = createPuller({
      connectionString: bench.test.url,
      listen: false,
      tasks: [{ name: 'send', batch: true }],
      slots: 2,
    });
    const single = createPuller({
      connectionString: bench.test.url,
      listen: false,
      tasks: ['send'],
      slots: 10,
    });
    stops.push(
      () => whole.close(),
      () => single.close(),
    );
    const ids = await enqueue(6);
    await dispatchBundles(bench.database, [ids.slice(0, 2), ids.slice(2, 3), ids.slice(3)]);
    expect((await single.claim({ max: 10 })).map(({ id, bundle }) => ({ id, bundle }))).toEqual([
      { id: ids[2], bundle: null },
    ]);
    const jobs = await whole.claim({ max: 2 });
    expect(jobs.map(({ id }) => id)).toEqual(ids.filter((id) => id !== ids[2]));
    expect(new Set(jobs.slice(0, 2).map(({ bundle }) => bundle)).size).toBe(1);
    expect(new Set(jobs.map(({ bundle }) => bundle)).size).toBe(2);
    expect(await whole.claim({ max: 1 })).toEqual([]);
    expect((await whole.ack(jobs)).accepted).toHaveLength(5);
  });
});
