import { defineTask, giveUp, implement, implementBatch, snooze } from '@pgqueue/core';
import type { Json, JobContext, PgQueueError } from '@pgqueue/core';
import { resetNode } from '@pgqueue/postgres/internal';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(() => bench.clear());

const payload = z.object({ at: z.number().optional() });
const task = defineTask({ name: 'task', payload, timeout: '1h', retry: { base: 1 } });

type Attempt = (context: JobContext) => unknown;

/** Runs one job by a handler for each of its attempts, and tells what each found. */
async function attempts(...handlers: readonly Attempt[]) {
  const found: unknown[] = [];
  const handler = implement(task, (_payload, ctx) => {
    found.push(ctx.job.checkpoint);
    return handlers[found.length - 1]?.(ctx);
  });
  const worker = await bench.worker([handler]);
  const { id } = await bench.producer.enqueue(task, {});
  await bench.dispatch();
  return { worker, handler, id, found };
}

const ended = async (id: string, status: string): Promise<void> => {
  await until(`job to be ${status}`, async () => {
    await bench.sql('update pgqueue.queue set run_after = null where run_after <= clock_timestamp()');
    await bench.dispatch();
    return (await bench.job(id)).status === status;
  });
};

describe('what an attempt keeps is there for the next one', () => {
  test.each<[string, (ctx: JobContext, node: string) => unknown]>([
    ['a retry', () => Promise.reject(new Error('no'))],
    ['a snooze', () => snooze(1)],
    ['a crash', (_ctx, node) => resetNode(bench.database, node)],
  ])('after %s', async (_name, end) => {
    const node = Promise.withResolvers<string>();
    const run = await attempts(
      async (ctx) => {
        expect(await ctx.checkpoint({ page: 1 })).toBe(true);
        expect(await ctx.checkpoint({ page: 2, of: [null, 'ä'] })).toBe(true);
        expect(await bench.job(ctx.job.id)).toMatchObject({ hasCheckpoint: true });
        return end(ctx, await node.promise);
      },
      () => 'done',
    );
    node.resolve(run.worker.node);
    await ended(run.id, 'done');
    expect(run.found).toEqual([null, { page: 2, of: [null, 'ä'] }]);
    expect(await bench.job(run.id)).toMatchObject({ hasCheckpoint: false, result: 'done' });
  });

  test.each<[string, (ctx: JobContext, node: string) => unknown]>([
    ['an attempt that gave up', () => giveUp('no')],
    ['its last crash', (_ctx, node) => resetNode(bench.database, node)],
  ])('after a redrive of the job, which was dead by %s', async (_name, end) => {
    const node = Promise.withResolvers<string>();
    const run = await attempts(
      async (ctx) => {
        await bench.sql('update pgqueue.queue set max_crashes = 1');
        expect(await ctx.checkpoint({ page: 1 })).toBe(true);
        return end(ctx, await node.promise);
      },
      () => 'done',
    );
    node.resolve(run.worker.node);
    await ended(run.id, 'dead');
    const [dead] = await bench.sql('select checkpoint from pgqueue.dead_letter where id = $1', [run.id]);
    expect(dead).toEqual({ checkpoint: { page: 1 } });
    expect(await bench.job(run.id)).toMatchObject({ hasCheckpoint: true });
    await bench.sql('select pgqueue.redrive(array[$1::uuid])', [run.id]);
    await ended(run.id, 'done');
    expect(run.found).toEqual([null, { page: 1 }]);
  });

  test('after a stop of its node, that released it', async () => {
    const run = await attempts(async (ctx) => {
      await ctx.checkpoint('half');
      await new Promise((_resolve, reject) => {
        ctx.signal.addEventListener('abort', () => reject(new Error('stopped')));
      });
    });
    await until('it to be kept', async () => (await bench.job(run.id)).hasCheckpoint);
    await run.worker.stop({ drainMs: 0 });
    await bench.worker([run.handler]);
    await ended(run.id, 'done');
    expect(run.found).toEqual([null, 'half']);
  });

  test('until it is taken back', async () => {
    const run = await attempts(
      async (ctx) => {
        await ctx.checkpoint('half');
        await ctx.checkpoint(null);
        throw new Error('no');
      },
      () => {},
    );
    await ended(run.id, 'done');
    expect(run.found).toEqual([null, null]);
  });
});

test('who lost the lease keeps nothing, and is told', async () => {
  const kept: unknown[] = [];
  const run = await attempts(
    async (ctx) => {
      await ctx.checkpoint('mine');
      await bench.sql('update pgqueue.work_queue set lock_token = gen_random_uuid() where id = $1', [
        ctx.job.id,
      ]);
      kept.push(await ctx.checkpoint('late'), ctx.signal.aborted, await ctx.checkpoint('later'));
    },
    () => {},
  );
  await until('it to be told', () => kept.length === 3);
  expect(kept).toEqual([false, true, false]);
  await expect.poll(() => run.worker.of('job.stale')).toMatchObject([{ job: run.id }]);
  expect(await bench.sql('select checkpoint from pgqueue.queue')).toEqual([{ checkpoint: 'mine' }]);
});

test('what is too large, or is no JSON, is refused, and what was kept stays', async () => {
  const errors: unknown[] = [];
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  const numbers = Array.from({ length: 2_000 }, () => 1e300); // short in JavaScript, 301 digits in PostgreSQL
  const run = await attempts(
    async (ctx) => {
      await ctx.checkpoint('kept');
      for (const data of ['x'.repeat(262_143), numbers, cycle, 1n]) {
        await ctx.checkpoint(data).catch((error: unknown) => errors.push(error));
      }
      await ctx.checkpoint('a\u0000b\ud800');
      throw new Error('no');
    },
    () => {},
  );
  await ended(run.id, 'done');
  expect(errors).toMatchObject([
    { code: 'invalid_job', message: expect.stringContaining('262145 bytes of JSON, more than 262144') },
    { message: expect.stringContaining('at most 256 KiB') },
    expect.any(TypeError),
    expect.any(TypeError),
  ]);
  expect(run.found).toEqual([null, 'ab\ufffd']);
});

test('a schema types it, refuses what does not fit, and makes a job begin anew after what another release kept', async () => {
  const typed = defineTask({
    name: 'typed',
    payload,
    retry: { base: 1 },
    checkpoint: z.object({ page: z.number() }),
  });
  const found: ({ readonly page: number } | null)[] = [];
  const errors: unknown[] = [];
  await bench.worker([
    implement(typed, async (_payload, { job, checkpoint }) => {
      found.push(job.checkpoint);
      // @ts-expect-error the schema says page: number
      await checkpoint({ page: 'two' }).catch((error: unknown) => errors.push(error));
      if (found.length === 3) return;
      await checkpoint({ page: found.length });
      throw new Error('no');
    }),
  ]);
  const { id } = await bench.producer.enqueue(typed, {});
  await until('two attempts', async () => {
    await bench.sql('update pgqueue.queue set run_after = null where tries < 2');
    await bench.dispatch();
    return found.length === 2;
  });
  await until('the second to end', async () => (await bench.job(id)).tries === 2);
  await bench.sql(`update pgqueue.queue set checkpoint = '{"side": 1}'`);
  await ended(id, 'done');
  expect(found).toEqual([null, { page: 1 }, null]);
  expect(errors[0]).toMatchObject({ code: 'invalid_job', message: expect.stringContaining('page: ') });
});

test('a waiting job that gets a new payload begins anew', async () => {
  const found: [unknown, Json | null][] = [];
  const handler = implement(task, async ({ at }, ctx) => {
    found.push([at, ctx.job.checkpoint as Json]);
    if (found.length > 1) return;
    await ctx.checkpoint('of 1');
    throw new Error('no');
  });
  await bench.worker([handler]);
  const options = { uniqueKey: { key: 'u', onConflict: 'replace' }, retry: { base: '1h' } } as const;
  const { id } = await bench.producer.enqueue(task, { at: 1 }, options);
  await bench.dispatch();
  await until('it to wait', async () => (await bench.job(id)).status === 'delayed');
  await bench.producer.enqueue(task, { at: 1 }, options);
  expect(await bench.job(id)).toMatchObject({ hasCheckpoint: true }); // the same work
  expect(await bench.producer.enqueue(task, { at: 2 }, options)).toEqual({ id, outcome: 'replaced' });
  expect(await bench.job(id)).toMatchObject({ hasCheckpoint: false });
  await bench.sql('update pgqueue.queue set run_after = null');
  await ended(id, 'done');
  expect(found).toEqual([
    [1, null],
    [2, null],
  ]);
});

test('each job of a bundle has its own', async () => {
  const found: unknown[] = [];
  const worker = await bench.worker([
    implementBatch(task, async (jobs, ctx) => {
      found.push(...jobs.map(({ checkpoint }) => checkpoint));
      const [job] = jobs;
      if (found.length > 1 || job === undefined) return;
      await expect(ctx.checkpoint({ ...job }, 1)).rejects.toThrow('one of the jobs of this call');
      expect(await ctx.checkpoint(job, { done: job.id })).toBe(true);
      throw new Error('no');
    }),
  ]);
  const { id } = await bench.producer.enqueue(task, {});
  await ended(id, 'done');
  expect(found).toEqual([null, { done: id }]);
  await expect.poll(() => worker.of('job.settled')).toHaveLength(2);
});

test('progress that is too large is refused whenever it comes, and what was shown stays', async () => {
  const deep = JSON.parse(`${'['.repeat(501)}${']'.repeat(501)}`) as unknown;
  const told: unknown[] = [];
  const shown = 'x'.repeat(8_190);
  const run = await attempts(async (ctx) => {
    // the first one is written at once, and the others come within 250 ms
    for (const value of [`${shown}x`, shown, `${shown}x`, 'ä'.repeat(4_096), deep]) {
      told.push(await ctx.progress(value).catch(({ code, message }: PgQueueError) => [code, message]));
    }
    await until('it to be shown', async () => (await bench.job(ctx.job.id)).progress !== null);
    expect((await bench.job(ctx.job.id)).progress).toBe(shown);
  });
  await ended(run.id, 'done');
  const refused = (why: string): unknown => ['invalid_job', expect.stringContaining(why)];
  const large = refused("can't show this progress: it has 8193 bytes of JSON, more than 8192");
  const wide = refused('it has 8194 bytes of JSON');
  expect(told).toEqual([large, true, large, wide, refused('nested deeper than 500 levels')]);
});

test('progress is written at most four times a second, the last one always', async () => {
  let written = 0;
  await bench.sql(`create table shown (n integer generated always as identity, progress jsonb)`);
  await bench.sql(`create function note_shown() returns trigger language plpgsql as
    $$ begin insert into public.shown (progress) values (new.progress); return null; end $$`);
  await bench.sql(`create trigger shown after update of progress on pgqueue.work_queue for each row
    when (new.progress is not null) execute function note_shown()`);
  const release = Promise.withResolvers<void>();
  const run = await attempts(async (ctx) => {
    for (let n = 0; n < 1_000; n += 1) if (await ctx.progress(n)) written += 1;
    await release.promise;
  });
  const shown = (): Promise<readonly Record<string, unknown>[]> =>
    bench.sql('select progress from shown order by n');
  await until('the last to be shown', async () => (await shown()).at(-1)?.['progress'] === 999);
  expect(written).toBe(1_000);
  expect((await shown()).length).toBeLessThan(10);
  expect((await shown())[0]).toEqual({ progress: 0 });
  release.resolve();
  await ended(run.id, 'done');
  await bench.sql('drop trigger shown on pgqueue.work_queue');
});
