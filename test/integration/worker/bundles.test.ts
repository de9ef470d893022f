import type { BatchContext, BatchJob } from '@pgqueue/core';
import { defineTask, giveUp, implementBatch, retryAfter } from '@pgqueue/core';
import { cancel, resetNode } from '@pgqueue/postgres/internal';
import type { WorkerOptions } from '@pgqueue/worker';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';
import { dispatchBundles } from '../sql/bundles-support.ts';

const bench = opened(openWorkerBench);
beforeAll(() => bench.sql('create table effect (job uuid)'));
afterEach(async () => {
  await bench.clear();
  await bench.sql('truncate effect');
});

const task = defineTask({
  name: 'task',
  payload: z.object({ n: z.number() }),
  timeout: '1h',
  retry: { maxTries: 3, base: '1m', backoff: 'fixed', jitter: 0 },
});
type Job = BatchJob<{ n: number }>;
type Handler = (jobs: readonly Job[], context: BatchContext) => unknown;

/** Jobs with n from 1, in one bundle, run by a worker with this handler. */
async function batch(
  size: number,
  handler: Handler,
  options: Partial<WorkerOptions> & { readonly timeout?: string } = {},
): Promise<{ readonly worker: TestWorker; readonly ids: readonly string[] }> {
  const { timeout = '1h', ...rest } = options;
  const jobs = Array.from({ length: size }, (_, index) =>
    task.job({ n: index + 1 }, { timeout: timeout as '1h', key: 'acme' }),
  );
  const ids = (await bench.producer.enqueueMany(jobs)).map(({ id }) => id);
  await dispatchBundles(bench.database, [ids]);
  return { worker: await bench.worker([implementBatch(task, handler)], rest), ids };
}

const statuses = (ids: readonly string[]): Promise<readonly string[]> =>
  Promise.all(ids.map(async (id) => (await bench.job(id)).status));
const ended = (ids: readonly string[], ...wanted: readonly string[]): Promise<unknown> =>
  until(`jobs to be ${wanted.join(', ')}`, async () => String(await statuses(ids)) === String(wanted));
const all = (ids: readonly string[], status: string): Promise<unknown> =>
  ended(ids, ...ids.map(() => status));

/** Another has the lease of one job of a bundle. */
async function loseLease(id: string | undefined): Promise<void> {
  await bench.sql(
    'select pgqueue.take_apart(array(select position from pgqueue.work_queue where jobs is not null))',
  );
  await bench.sql('update pgqueue.work_queue set lock_token = gen_random_uuid() where id = $1', [id]);
}

describe('a batch', () => {
  test('is one call in one slot, with what each job is; nothing returned ends all as done', async () => {
    const calls: (readonly Job[])[] = [];
    const running: number[] = [];
    const { worker, ids } = await batch(5, (jobs) => {
      calls.push(jobs);
      running.push(worker.running);
    });
    await all(ids, 'done');
    expect(calls.map((jobs) => jobs.map(({ id }) => id))).toEqual([ids]);
    const [first] = calls[0] ?? [];
    expect(first).toMatchObject({ id: ids[0], payload: { n: 1 }, key: 'acme', tries: 0 });
    expect(Object.keys(first ?? {})).not.toContain('token');
    expect(running).toEqual([1]);
    expect(worker.of('job.started').map(({ job }) => job)).toEqual(ids);
    await expect
      .poll(() => worker.of('job.settled').map(({ verdict }) => verdict))
      .toEqual(ids.map(() => 'done'));
  });

  test('of one is what a job alone comes as', async () => {
    const sizes: number[] = [];
    const { ids } = await batch(1, (jobs) => void sizes.push(jobs.length));
    await all(ids, 'done');
    expect(sizes).toEqual([1]);
    expect((await bench.job(ids[0] ?? '')).result).toBeNull();
  });

  test('ends each job as the list that it returns says, also by promises', async () => {
    const { ids } = await batch(5, (jobs) =>
      jobs.map(async ({ payload: { n } }) => {
        await Promise.resolve();
        if (n === 2) return retryAfter('1h', new Error('later'));
        if (n === 3) return giveUp(new Error('never'));
        if (n === 4) throw new Error('not now');
        return { n };
      }),
    );
    await ended(ids, 'done', 'delayed', 'dead', 'delayed', 'done');
    const jobs = await Promise.all(ids.map((id) => bench.job(id)));
    expect(jobs.map(({ result }) => result)).toEqual([{ n: 1 }, null, null, null, { n: 5 }]);
    expect(jobs.map(({ tries }) => tries)).toEqual([0, 1, 1, 1, 0]);
    expect(jobs.map(({ lastError }) => lastError?.message)).toEqual([
      undefined,
      'later',
      'never',
      'not now',
      undefined,
    ]);
  });

  test('that throws tries each job again, on its own count and policy', async () => {
    const first = { retry: { maxTries: 1 } };
    const own = { retry: { base: '10m', backoff: 'fixed', jitter: 0 } } as const;
    const jobs = [task.job({ n: 1 }, first), task.job({ n: 2 }, own), task.job({ n: 3 })];
    const ids = (await bench.producer.enqueueMany(jobs)).map(({ id }) => id);
    await dispatchBundles(bench.database, [ids]);
    await bench.worker([
      implementBatch(task, () => {
        throw new Error('no');
      }),
    ]);
    await ended(ids, 'dead', 'delayed', 'delayed');
    const waits = await Promise.all(
      ids.slice(1).map(async (id) => (await bench.job(id)).runAfter?.getTime() ?? 0),
    );
    expect(waits.map((at) => Math.round((at - Date.now()) / 60_000))).toEqual([10, 1]);
  });

  test('goes on without a job whose payload does not fit', async () => {
    const seen: number[] = [];
    const jobs = [1, 2, 3].map((n) => task.job({ n }));
    const ids = (await bench.producer.enqueueMany(jobs)).map(({ id }) => id);
    await bench.sql(`update pgqueue.queue set payload = '{"n": "two"}' where id = $1`, [ids[1]]);
    await dispatchBundles(bench.database, [ids]);
    const worker = await bench.worker([
      implementBatch(task, (fit) => void seen.push(...fit.map(({ payload: { n } }) => n))),
    ]);
    await ended(ids, 'done', 'dead', 'done');
    expect(seen).toEqual([1, 3]);
    await expect.poll(() => worker.of('job.invalid')).toMatchObject([{ job: ids[1] }]);
  });

  test('past the shortest timeout of its jobs fails as a whole, whatever its handler does', async () => {
    const jobs = [task.job({ n: 1 }), task.job({ n: 2 }, { timeout: '3s' })];
    const ids = (await bench.producer.enqueueMany(jobs)).map(({ id }) => id);
    await dispatchBundles(bench.database, [ids]);
    const release = Promise.withResolvers<void>();
    let reason: unknown;
    const worker = await bench.worker([
      implementBatch(task, async (_jobs, { signal }) => {
        signal.addEventListener('abort', () => (reason = signal.reason));
        await release.promise;
      }),
    ]);
    await all(ids, 'delayed');
    expect(worker.running).toBe(1);
    release.resolve();
    expect(reason).toMatchObject({ code: 'timeout' });
    await until('the slot to be free', () => worker.running === 0);
    await expect
      .poll(() => worker.of('job.settled').map(({ verdict }) => verdict))
      .toEqual(['retry', 'retry']);
    expect(worker.of('job.stale')).toEqual([]);
  });

  test('goes on past that when it extends, and shows its progress at each job', async () => {
    const { ids } = await batch(
      3,
      async (_jobs, ctx) => {
        expect(await ctx.extend('1h')).toBe(true);
        expect(await ctx.progress({ half: true })).toBe(true);
        const rows = await bench.sql(
          `select progress, lock_timeout > clock_timestamp() + interval '59 minutes' as long from pgqueue.work_queue`,
        );
        expect(rows).toEqual(ids.map(() => ({ progress: { half: true }, long: true })));
      },
      { timeout: '20s' },
    );
    await all(ids, 'done');
  });

  test('that is interrupted by a shutdown is given back whole, uncounted', async () => {
    const began = Promise.withResolvers<void>();
    const { worker, ids } = await batch(3, async (_jobs, { signal }) => {
      began.resolve();
      await new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    });
    await began.promise;
    await worker.stop({ drainMs: 0 });
    await all(ids, 'ready');
    const sizes: number[] = [];
    await bench.worker([implementBatch(task, (jobs) => void sizes.push(jobs.length))]);
    await all(ids, 'done');
    expect(sizes).toEqual([3]);
    expect((await bench.job(ids[0] ?? '')).tries).toBe(0);
  });
});

describe('one job of a batch', () => {
  test('that is cancelled hears of it alone; the others end as they would', async () => {
    const { ids } = await batch(3, async (jobs, { signal }) => {
      await cancel(bench.database, [ids[1] ?? '']);
      await until('its signal', () => jobs[1]?.signal.aborted);
      expect(signal.aborted).toBe(false);
      return jobs.map((job) => (job.signal.aborted ? new Error('stopped') : null));
    });
    await ended(ids, 'done', 'cancelled', 'done');
  });

  test('that lost its lease is left out of what is accepted, and told as stale', async () => {
    const { worker, ids } = await batch(3, async (jobs, { signal, extend }) => {
      await loseLease(ids[1]);
      expect(await extend('1h')).toBe(true);
      expect(jobs.map((job) => job.signal.aborted)).toEqual([false, true, false]);
      expect(signal.aborted).toBe(false);
    });
    await ended(ids, 'done', 'running', 'done');
    await expect.poll(() => worker.of('job.stale')).toMatchObject([{ job: ids[1] }]);
    await expect.poll(() => worker.of('job.settled').map(({ job }) => job)).toEqual([ids[0], ids[2]]);
  });
});

test('all that lost their leases abort the whole signal, and their jobs wait again, for one by one', async () => {
  const reasons: unknown[] = [];
  const sizes: number[] = [];
  const { worker, ids } = await batch(4, async (jobs, { signal, extend }) => {
    sizes.push(jobs.length);
    if (sizes.length > 1) return;
    await resetNode(bench.database, worker.node);
    expect(await extend('1h')).toBe(false);
    reasons.push(signal.reason);
  });
  await all(ids, 'pending');
  await dispatchBundles(
    bench.database,
    ids.map((id) => [id]),
  );
  await all(ids, 'done');
  expect(reasons).toMatchObject([{ code: 'lease_lost' }]);
  expect(sizes).toEqual([4, 1, 1, 1, 1]);
  expect((await bench.job(ids[0] ?? '')).crashes).toBe(1);
});

describe('ctx.transaction', () => {
  const write = async (jobs: readonly Job[], { transaction }: BatchContext, some?: readonly Job[]) =>
    transaction(
      (client) =>
        client.query('insert into effect select unnest($1::uuid[])', [(some ?? jobs).map(({ id }) => id)]),
      some === undefined ? {} : { jobs: some },
    );
  const effects = async () => (await bench.sql('select job from effect')).map(({ job }) => job);

  test('commits the writes and the end of every job together', async () => {
    const { worker, ids } = await batch(4, async (jobs, ctx) => {
      await write(jobs, ctx);
      throw new Error('after the end');
    });
    await all(ids, 'done');
    await until('the slot to be free', () => worker.running === 0);
    expect(await effects()).toEqual(ids);
    await expect
      .poll(() => worker.of('job.settled').map(({ verdict }) => verdict))
      .toEqual(ids.map(() => 'done'));
  });

  test('writes nothing when one lease was lost; the others can be named', async () => {
    const { ids } = await batch(3, async (jobs, ctx) => {
      await loseLease(ids[1]);
      await expect(write(jobs, ctx)).rejects.toMatchObject({ code: 'lease_lost' });
      await expect(write(jobs, ctx)).rejects.toMatchObject({ code: 'lease_lost' });
      await write(
        jobs,
        ctx,
        jobs.filter(({ signal }) => !signal.aborted),
      );
    });
    await ended(ids, 'done', 'running', 'done');
    expect(await effects()).toEqual([ids[0], ids[2]]);
  });

  test('settles some, and others by what is returned; each once', async () => {
    const { ids } = await batch(3, async (jobs, ctx) => {
      await write(jobs, ctx, jobs.slice(0, 1));
      await expect(write(jobs, ctx, jobs.slice(0, 1))).rejects.toThrow('once');
      await expect(write(jobs, ctx, [])).rejects.toThrow('some of this call');
      await write(jobs, ctx, jobs.slice(1, 2));
      return giveUp(new Error('the rest'));
    });
    await ended(ids, 'done', 'done', 'dead');
    expect(await effects()).toEqual(ids.slice(0, 2));
  });

  test('settles some, and then all the rest', async () => {
    const { ids } = await batch(3, async (jobs, ctx) => {
      await write(jobs, ctx, jobs.slice(1, 2));
      await write(
        jobs.filter((_job, index) => index !== 1),
        ctx,
      );
      throw new Error('after the end');
    });
    await all(ids, 'done');
    expect(await effects()).toEqual([ids[1], ids[0], ids[2]]);
  });
});
