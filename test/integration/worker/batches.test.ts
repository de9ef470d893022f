import { defineTask, giveUp, implement, snooze } from '@pgqueue/core';
import type { JobContext } from '@pgqueue/core';
import { breaches, cancel, dispatch, lead, resetNode } from '@pgqueue/postgres/internal';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import type { TestWorker, WorkerBench } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(async () => {
  const broken = await breaches(bench.database);
  if (broken.length > 0) throw new Error(`after the test: ${JSON.stringify(broken)}`);
  await bench.clear();
});

const task = defineTask({
  name: 'task',
  payload: z.object({ n: z.int() }),
  timeout: '1h',
  retry: { maxTries: 3, base: '1h', jitter: 0 },
});

/** So many jobs in one batch. */
async function enqueue(count: number): Promise<readonly string[]> {
  const made = await bench.producer.enqueueMany(Array.from({ length: count }, (_, n) => task.job({ n })));
  const ids = made.map(({ id }) => id);
  const leader = 'test-dispatcher';
  const { epoch } = await lead(bench.database, leader, 60_000);
  const jobs = ids.map((id) => ({ id, pool: 'default', rowVersion: null, bundle: null, row: 1 }));
  await dispatch(bench.database, { leader, epoch, jobs, parts: null, settled: [], notify: true });
  return ids;
}

type Run = (n: number, context: JobContext) => unknown;

interface Ran {
  readonly worker: TestWorker;
  readonly ids: readonly string[];
  /** How often each has begun. */
  readonly begun: readonly number[];
}

async function run(
  count: number,
  handler: Run,
  options: Parameters<WorkerBench['worker']>[1] = {},
): Promise<Ran> {
  const begun = Array.from({ length: count }, () => 0);
  const worker = await bench.worker(
    [
      implement(task, ({ n }, context) => {
        begun[n] = (begun[n] ?? 0) + 1;
        return handler(n, context);
      }),
    ],
    { concurrency: 1, ...options },
  );
  return { worker, ids: await enqueue(count), begun };
}

const statuses = (ids: readonly string[]): Promise<readonly string[]> =>
  Promise.all(ids.map(async (id) => (await bench.job(id)).status));
const become = (ids: readonly string[], wanted: readonly string[]): Promise<unknown> =>
  until(`the jobs to be ${wanted.join(', ')}`, async () => {
    const now = await statuses(ids);
    return now.every((status, index) => status === wanted[index]);
  });
const all = (count: number, status: string): readonly string[] => Array.from({ length: count }, () => status);

test('jobs of a batch end as their handlers say, and each has run once', async () => {
  const { ids, begun, worker } = await run(6, (n) => {
    if (n === 1) throw new Error('broken');
    if (n === 2) return snooze('1h');
    if (n === 3) return giveUp(new Error('for good'));
    return { n };
  });
  await become(ids, ['done', 'delayed', 'delayed', 'dead', 'done', 'done']);
  expect(begun).toEqual([1, 1, 1, 1, 1, 1]);
  expect((await bench.job(ids[4] ?? '')).result).toEqual({ n: 4 });
  expect([(await bench.job(ids[1] ?? '')).tries, (await bench.job(ids[2] ?? '')).tries]).toEqual([1, 0]);
  expect(worker.of('job.stale')).toEqual([]);
});

test('the time that a job waits for others of its batch is no part of its run', async () => {
  const firstMs = 200;
  const { ids } = await run(2, async (n, ctx) => {
    if (n === 0) await new Promise((resolve) => setTimeout(resolve, firstMs));
    else await ctx.extend('1h'); // in a row of its own, which is settled by itself
  });
  await become(ids, all(2, 'done'));
  const [row] = await bench.sql(
    `select extract(epoch from max(started) - min(started))::float8 * 1000 as ms from pgqueue.history where id = any ($1)`,
    [ids],
  );
  expect(Number(row?.['ms'])).toBeGreaterThanOrEqual(firstMs - 5);
});

test.each(['settle_rows', 'take_out', 'claim_rows'])(
  'a reply of %s that is lost costs no job its end',
  async (statement) => {
    const proxy = await startCutProxy(bench.test.url);
    proxy.cutReplyOf(`.${statement}(`);
    try {
      const fails = statement === 'take_out';
      const { ids, begun, worker } = await run(5, (n) => (fails && n === 2 ? snooze('1h') : n), {
        connectionString: proxy.url,
        listen: false,
      });
      await until('the cut', () => proxy.cuts() === 1);
      await become(ids, fails ? ['done', 'done', 'delayed', 'done', 'done'] : all(5, 'done'));
      expect(begun).toEqual([1, 1, 1, 1, 1]);
      await expect.poll(() => worker.of('job.settled').length).toBe(5);
      expect(worker.of('job.stale')).toEqual([]);
      await worker.stop();
    } finally {
      await proxy.close();
    }
  },
);

describe('a job of a batch that runs', () => {
  test('is cancelled by itself, and so is one that has not begun; the others run', async () => {
    const gate = Promise.withResolvers<void>();
    const { ids, begun } = await run(4, async (n, { signal }) => {
      if (n !== 1) return;
      await Promise.race([gate.promise, new Promise((resolve) => signal.addEventListener('abort', resolve))]);
      signal.throwIfAborted();
    });
    await until('it to run', () => begun[1] === 1);
    await cancel(bench.database, [ids[1] ?? '', ids[2] ?? '']);
    await become(ids, ['done', 'cancelled', 'cancelled', 'done']);
    expect(begun).toEqual([1, 1, 0, 1]);
    gate.resolve();
  });

  test.each<[string, (context: JobContext) => Promise<unknown>]>([
    ['extends its lease', async (ctx) => expect(await ctx.extend('2h')).toBe(true)],
    ['shows progress', async (ctx) => expect(await ctx.progress({ done: 1 })).toBe(true)],
    ['keeps a checkpoint', async (ctx) => expect(await ctx.checkpoint({ page: 1 })).toBe(true)],
    ['settles in a transaction', (ctx) => ctx.transaction((client) => client.query('select 1'))],
  ])('%s', async (_what, act) => {
    const { ids, begun, worker } = await run(4, (n, context) =>
      n === 1 ? act(context).then(() => undefined) : n,
    );
    await become(ids, all(4, 'done'));
    await until('their events', () => worker.of('job.settled').length === 4);
    expect(begun).toEqual([1, 1, 1, 1]);
    expect(worker.of('job.stale')).toEqual([]);
  });

  test('for long is left to itself: those before it are settled, and those behind it run elsewhere', async () => {
    const gate = Promise.withResolvers<void>();
    const { ids, begun } = await run(5, async (n) => {
      if (n === 2) await gate.promise;
    });
    await become(ids, ['done', 'done', 'running', 'ready', 'ready']);
    await bench.worker([implement(task, () => 'elsewhere')], { node: 'other', concurrency: 1 });
    await become(ids, ['done', 'done', 'running', 'done', 'done']);
    gate.resolve();
    await become(ids, all(5, 'done'));
    expect(begun).toEqual([1, 1, 1, 0, 0]);
  });

  test('and whose row an application has locked holds up no other', async () => {
    const gate = Promise.withResolvers<void>();
    const { ids, begun } = await run(4, async (n) => {
      if (n === 0) await gate.promise;
    });
    const client = await bench.database.pool.connect();
    try {
      await client.query('begin');
      await client.query('select from pgqueue.queue where id = $1 for update', [ids[2]]);
      gate.resolve();
      await become([ids[0] ?? '', ids[1] ?? '', ids[3] ?? ''], all(3, 'done'));
      expect((await bench.job(ids[2] ?? '')).status).toBe('running');
      await client.query('commit');
    } finally {
      client.release();
    }
    await become(ids, all(4, 'done'));
    expect(begun).toEqual([1, 1, 1, 1]);
  });
});

describe('a node that ends while it runs a batch', () => {
  test.each([
    ['at once', 0, true],
    ['by its drain', undefined, false],
  ])(
    '%s settles what is done, and gives back what has not begun, uncounted',
    async (_how, drainMs, aborts) => {
      const gate = Promise.withResolvers<void>();
      const { ids, begun, worker } = await run(5, async (n, { signal }) => {
        if (n !== 2) return;
        await Promise.race([
          gate.promise,
          new Promise((resolve) => signal.addEventListener('abort', resolve)),
        ]);
        signal.throwIfAborted();
      });
      await until('it to run', () => begun[2] === 1);
      const stopping = worker.stop(drainMs === undefined ? {} : { drainMs });
      await until('the drain', () => worker.of('node.draining').length === 1);
      if (!aborts) gate.resolve();
      await stopping;
      expect(await statuses(ids)).toEqual(['done', 'done', aborts ? 'ready' : 'done', 'ready', 'ready']);
      expect(begun).toEqual([1, 1, 1, 0, 0]);
      const rows = await bench.sql('select tries, crashes from pgqueue.queue');
      expect(rows).toEqual(rows.map(() => ({ tries: 0, crashes: 0 })));
    },
  );

  test('by a reset loses all of it, and its late settlements change nothing', async () => {
    const gate = Promise.withResolvers<void>();
    const { ids, worker } = await run(3, async (n) => {
      if (n === 1) await gate.promise;
    });
    await until('the second to run', () => worker.of('job.started').length === 2);
    await resetNode(bench.database, worker.node);
    await bench.sql(`update pgqueue.queue set run_after = null`);
    gate.resolve();
    await become(ids, all(3, 'done'));
    const rows = await bench.sql(
      'select count(*)::integer as jobs, sum(crashes)::integer as crashes from pgqueue.history',
    );
    expect(rows).toEqual([{ jobs: 3, crashes: 3 }]);
  });
});
