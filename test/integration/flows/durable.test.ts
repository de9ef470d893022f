import type { JobContext } from '@pgqueue/core';
import { defineTask, giveUp, implement, isolated } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { Suspended } from '@pgqueue/worker';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startActor } from '../../support/actors.ts';
import { durableTask } from '../../support/actors/durable-task.ts';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';
import { until } from '../../support/until.ts';

const bench = opened(openFlowBench);
const proxy = opened(() => startCutProxy(bench.test.url), { each: true });
afterEach(() => bench.clear());

const leaf = defineTask({
  name: 'leaf',
  payload: z.object({ n: z.int() }),
  result: z.number(),
  retry: { maxTries: 1 },
});
const parent = defineTask({
  name: 'parent',
  payload: z.object({}),
  retry: { base: 1, maxTries: 5 },
  timeout: '1h',
});
const leafHandler = implement(leaf, ({ n }) => (n % 10 === 9 ? giveUp('no') : n));
type Parent = (ctx: JobContext) => unknown;

async function started(handler: Parent, options: Parameters<typeof bench.start>[1] = {}) {
  const worker = await bench.start([implement(parent, (_, ctx) => handler(ctx)), leafHandler], options);
  const { id } = await bench.producer.enqueue(parent, {});
  return { worker, id };
}

describe('ctx.step', () => {
  test('runs once, and an attempt after an error goes on behind it', async () => {
    const ran: string[] = [];
    const { id } = await started(async (ctx) => {
      const first = await ctx.step('first', () => {
        ran.push('first');
        return { at: new Date(0), none: undefined };
      });
      await ctx.checkpoint({ tries: ctx.job.tries });
      const second = await ctx.step('second', () => void ran.push('second'));
      ran.push(`attempt ${ctx.job.tries}: ${JSON.stringify(ctx.job.checkpoint)}`);
      if (ctx.job.tries < 2) throw new Error('again');
      return { first, second: String(second) };
    });
    expect(await bench.resultOf(id)).toEqual({
      first: { at: '1970-01-01T00:00:00.000Z' },
      second: 'undefined',
    });
    expect(ran).toEqual([
      'first',
      'second',
      'attempt 0: null',
      'attempt 1: {"tries":0}',
      'attempt 2: {"tries":1}',
    ]);
  });

  test('that throws keeps nothing', async () => {
    let ran = 0;
    const { id } = await started((ctx) =>
      ctx.step('only', () => {
        ran += 1;
        if (ran < 3) throw new Error('again');
        return ran;
      }),
    );
    expect(await bench.resultOf(id)).toBe(3);
  });

  test('runs beside others: all are kept', async () => {
    const ran: string[] = [];
    const names = Array.from({ length: 20 }, (_, n) => `step ${n}`);
    const { id } = await started(async (ctx) => {
      const results = await Promise.all(
        names.map((name) =>
          ctx.step(name, () => {
            ran.push(name);
            return name;
          }),
        ),
      );
      if (ctx.job.tries === 0) throw new Error('again');
      return results;
    });
    expect(await bench.resultOf(id)).toEqual(names);
    expect(ran).toHaveLength(20);
  });

  test('of an earlier release is left alone', async () => {
    const { id } = await started(async (ctx) => {
      if (ctx.job.tries > 0) return ctx.step('new', () => 'new');
      await ctx.step('old', () => 'old');
      throw new Error('again');
    });
    expect(await bench.resultOf(id)).toBe('new');
  });

  test('of a lost lease keeps nothing, and throws', async () => {
    const seen: unknown[] = [];
    const { id } = await started(async (ctx) => {
      if (seen.length > 0) return;
      await bench.sql('update pgqueue.work_queue set lock_token = gen_random_uuid() where id = $1', [
        ctx.job.id,
      ]);
      seen.push(await ctx.step('late', () => 1).catch((error: unknown) => error));
    });
    await until('it to be told', () => seen.length > 0);
    expect(seen).toMatchObject([{ name: 'AbortedError', code: 'lease_lost' }]);
    expect(await bench.sql('select checkpoint from pgqueue.queue where id = $1', [id])).toEqual([
      { checkpoint: null },
    ]);
  });

  test('of a node that is killed between steps goes on elsewhere', async () => {
    await bench.start([leafHandler]);
    const options = { concurrency: 1, lostAfterMs: 30_000, heartbeatMs: 100 };
    const first = await startActor('worker', {
      url: bench.test.url,
      name: 'first',
      file: new URL('../../support/actors/durable.ts', import.meta.url),
      options: { ...options, diesIn: 'second' },
    });
    const { id } = await bench.producer.enqueue(durableTask, {});
    await until('it to die', () => first.process.signalCode === 'SIGKILL');
    expect(first.heard.filter(({ type }) => type === 'ran')).toMatchObject([
      { step: 'first' },
      { step: 'second' },
    ]);
    const next = await startActor('worker', {
      url: bench.test.url,
      name: 'next',
      file: new URL('../../support/actors/durable.ts', import.meta.url),
      options,
    });
    expect(await bench.resultOf(id)).toEqual({ first: 'by first', second: 'by next', crashes: 1 });
    expect(next.heard.filter(({ type }) => type === 'ran')).toMatchObject([{ step: 'second' }]);
    await next.stop();
  });
});

/** Makes the time of a sleep pass. */
const pass = (id: string, name: string): Promise<unknown> =>
  bench.sql(
    `update pgqueue.queue set run_after = null, checkpoint = jsonb_set(checkpoint, array['pgqueue', 'steps', $2, 'untilMs'], '0') where id = $1`,
    [id, name],
  );

describe('ctx.sleep', () => {
  test('gives the slot back, and goes on when the time has passed', async () => {
    const began: number[] = [];
    const { id, worker } = await started(
      async (ctx) => {
        began.push(performance.now());
        await ctx.sleep('long', '1h');
        await ctx.sleep('a while', 400);
        await ctx.sleep('no time', 0);
        return ctx.job.tries;
      },
      { concurrency: 1 },
    );
    await bench.suspended(id);
    const { id: other } = await bench.producer.enqueue(leaf, { n: 1 });
    expect(await bench.endOf(other)).toBe('done');
    await pass(id, 'long');
    expect(await bench.resultOf(id)).toBe(0);
    expect(began).toHaveLength(3);
    expect((began[2] ?? 0) - (began[1] ?? 0)).toBeGreaterThan(390);
    await expect
      .poll(() => worker.of('job.settled').map(({ verdict }) => verdict))
      .toEqual(expect.arrayContaining(['snooze', 'done']));
    expect(worker.of('job.stale')).toEqual([]);
  });

  test('that is woken early sleeps on', async () => {
    let began = 0;
    const { id } = await started(async (ctx) => {
      began += 1;
      await ctx.sleep('a while', '1h');
    });
    const wakesAt = async (): Promise<number> => (await bench.job(id)).runAfter?.getTime() ?? 0;
    await bench.suspended(id);
    const first = await wakesAt();
    await bench.sql('update pgqueue.queue set run_after = null');
    await until('it to begin again', () => began === 2);
    await bench.suspended(id);
    expect(Math.abs((await wakesAt()) - first)).toBeLessThan(60_000);
    await pass(id, 'a while');
    expect(await bench.resultOf(id)).toBeNull();
    expect(began).toBe(3);
  });

  test('whose reply is lost is a sleep', async () => {
    const { id, worker } = await started(
      async (ctx) => {
        if (proxy.cuts() === 0) proxy.cutReplyOf('.settle(');
        await ctx.sleep('a while', '1h');
        return 'slept';
      },
      { connectionString: proxy.url, listen: false },
    );
    await until('the repeated call to be answered', () => worker.of('job.settled').length > 0);
    await pass(id, 'a while');
    expect(await bench.resultOf(id)).toBe('slept');
    expect(proxy.cuts()).toBe(1);
    expect(worker.of('job.stale')).toEqual([]);
  });
});

describe('ctx.waitForSignal', () => {
  const schema = z.object({ by: z.string().transform((by) => by.toUpperCase()) });
  const waiting: Parent = (ctx) => ctx.waitForSignal('ok', { schema });

  test('resolves to a value that comes later', async () => {
    const { id } = await started(waiting);
    await bench.suspended(id);
    expect(await bench.producer.signalJob(id, 'ok', { by: 'ada' })).toBe('signalled');
    expect(await bench.producer.signalJob(id, 'ok', { by: 'eve' })).not.toBe('signalled');
    expect(await bench.resultOf(id)).toEqual({ by: 'ADA' });
  });

  test('resolves to a value that an operator gives', async () => {
    const operator = createOperator({ connectionString: bench.test.url });
    const { id } = await started(waiting);
    await bench.suspended(id);
    expect(await operator.jobs.signal(id, 'ok', { by: 'ada' })).toBe('signalled');
    expect(await bench.resultOf(id)).toEqual({ by: 'ADA' });
    await operator.close();
  });

  test('resolves at once to a value that came before', async () => {
    let began = 0;
    const { id } = await started(async (ctx) => {
      began += 1;
      await until('the signal', () => signalled);
      return waiting(ctx);
    });
    let signalled = false;
    expect(await bench.producer.signalJob(id, 'ok', { by: 'ada' })).toBe('signalled');
    signalled = true;
    expect(await bench.resultOf(id)).toEqual({ by: 'ADA' });
    expect(began).toBeLessThanOrEqual(2);
  });

  test('with a timeout resolves to a value that comes in time', async () => {
    const { id } = await started((ctx) => ctx.waitForSignal('ok', { timeout: '1h' }));
    await bench.suspended(id);
    await bench.producer.signalJob(id, 'ok', null);
    expect(await bench.resultOf(id)).toBeNull();
    expect(await bench.sql('select state from pgqueue.flow')).toEqual([{ state: 'done' }]);
  });

  test('throws when the time is over, which the handler can catch', async () => {
    const { id } = await started(async (ctx) => {
      try {
        return await ctx.waitForSignal('ok', { timeout: 300 });
      } catch (error) {
        if (error instanceof Suspended) throw error;
        return (error as { readonly code?: string }).code;
      }
    });
    expect(await bench.resultOf(id)).toBe('signal_timeout');
    await expect(bench.producer.signalJob(id, 'ok', 1)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('with a value that does not fit fails', async () => {
    const { id } = await started(waiting);
    await bench.suspended(id);
    await bench.producer.signalJob(id, 'ok', { by: 5 });
    expect(await bench.endOf(id)).toBe('dead');
    const [dead] = await bench.sql(`select errors -> 0 ->> 'message' as message from pgqueue.dead_letter`);
    expect(dead?.['message']).toMatch(/the value of the signal "ok" does not fit its schema: by: /);
  });
});

describe('an isolated handler', () => {
  const module = new URL('../../support/isolated/durable.ts', import.meta.url);

  test('has steps and waits, too', async () => {
    await bench.start([implement(durableTask, isolated(module)), leafHandler]);
    const { id } = await bench.producer.enqueue(durableTask, {});
    await until('it to wait for the signal', async () => {
      const answer = await bench.producer.signalJob(id, 'ok', { by: 'ada' }).catch(() => 'unknown');
      return answer !== 'unknown';
    });
    expect(await bench.resultOf(id)).toMatchObject({
      step: 'once',
      leaves: [
        { outcome: 'done', result: 1 },
        { outcome: 'dead', result: null },
      ],
      ok: { by: 'ada' },
      tries: 0,
    });
  });
});
