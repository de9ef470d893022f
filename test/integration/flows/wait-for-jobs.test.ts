import type { JobContext } from '@pgqueue/core';
import { defineTask, flow, giveUp, implement } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { reasonText } from '@pgqueue/postgres/internal';
import { Suspended } from '@pgqueue/worker';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
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
const last = defineTask({ name: 'last', payload: z.object({}), needs: { first: parent } });
const leafHandler = implement(leaf, ({ n }) => (n % 10 === 9 ? giveUp('no') : n));
const leaves = (count: number) => Array.from({ length: count }, (_, n) => leaf.job({ n }));

type Parent = (ctx: JobContext) => unknown;

async function started(handler: Parent, options: Parameters<typeof bench.start>[1] = {}) {
  const worker = await bench.start([implement(parent, (_, ctx) => handler(ctx)), leafHandler], options);
  const { id } = await bench.producer.enqueue(parent, {});
  return { worker, id };
}

describe('ctx.all', () => {
  test('resolves to the ends of 200 jobs in their order, some of which die', async () => {
    let began = 0;
    const { id, worker } = await started(async (ctx) => {
      began += 1;
      const ends = await ctx.all('leaves', leaves(200));
      return ends.map((end) => (end.outcome === 'done' ? end.result : end.outcome));
    });
    expect(await bench.resultOf(id)).toEqual(leaves(200).map((_, n) => (n % 10 === 9 ? 'dead' : n)));
    expect(began).toBe(2);
    expect(worker.of('enqueued')).toEqual([{ type: 'enqueued', count: 200, queue: 'default', task: 'leaf' }]);
    expect(await bench.sql('select name, state from pgqueue.flow')).toEqual([
      { name: 'parent: leaves', state: 'failed' },
    ]);
  });

  test('works more than once, and behind steps', async () => {
    const { id } = await started(async (ctx) => {
      const count = await ctx.step('count', () => 3);
      const first = await ctx.all('first', leaves(count));
      const none = await ctx.all('none', []);
      const second = await ctx.all('second', [leaf.job({ n: first.length })]);
      return [first.length, none.length, second[0].outcome === 'done' ? second[0].result : null];
    });
    expect(await bench.resultOf(id)).toEqual([3, 0, 3]);
  });

  test('of a job of a flow leaves its step open', async () => {
    const { id: flowId } = await (async () => {
      await bench.start([
        implement(parent, async (_, ctx) => (await ctx.all('leaves', leaves(3))).length),
        leafHandler,
        implement(last, async (_, { needs }) => needs.first.one()),
      ]);
      return bench.producer.start(
        flow('outer')
          .step('first', [parent.job({})])
          .step('last', last.job({}), { needs: ['first'] }),
      );
    })();
    expect(await bench.flowEnd(flowId)).toBe('done');
    expect(await bench.sql(`select result from pgqueue.history where task = 'last'`)).toEqual([
      { result: 3 },
    ]);
  });

  test('that is woken early waits on', async () => {
    const slow = defineTask({ name: 'slow', payload: z.object({}), timeout: '1h' });
    const release = Promise.withResolvers<void>();
    let began = 0;
    await bench.start([
      implement(slow, () => release.promise),
      implement(parent, async (_, ctx) => {
        began += 1;
        return (await ctx.all('slow', [slow.job({})])).length;
      }),
    ]);
    const { id } = await bench.producer.enqueue(parent, {});
    await bench.suspended(id);
    await bench.sql('update pgqueue.queue set run_after = null where id = $1', [id]);
    await until('it to begin again', () => began === 2);
    await bench.suspended(id);
    release.resolve();
    expect(await bench.resultOf(id)).toBe(1);
    expect(began).toBe(3);
  });

  test('that is not awaited fails the attempt', async () => {
    const { id, worker } = await started((ctx) => {
      if (ctx.job.tries > 0) return 'awaited';
      ctx.all('leaves', leaves(3)).catch(() => {});
      return 'early';
    });
    expect(['awaited', 'early']).toContain(await bench.resultOf(id));
    expect(worker.of('job.stale')).toEqual([]);
  });

  test('of two that run at once takes turns', async () => {
    const { id } = await started(async (ctx) => {
      const [first, second] = await Promise.all([ctx.all('first', leaves(2)), ctx.all('second', leaves(3))]);
      return [first.length, second.length];
    });
    expect(await bench.resultOf(id)).toEqual([2, 3]);
  });

  test('whose reply is lost enqueues once', async () => {
    const answered = Promise.withResolvers<void>();
    const worker = await bench.start(
      [
        implement(parent, async (_, ctx) => {
          if (proxy.cuts() === 0) proxy.cutReplyOf('.suspend_job(');
          return (await ctx.all('leaves', leaves(3))).length;
        }),
        implement(leaf, ({ n }) => answered.promise.then(() => n)),
      ],
      { connectionString: proxy.url, listen: false },
    );
    const { id } = await bench.producer.enqueue(parent, {});
    await until('the repeated call to be answered', () => worker.of('job.settled').length > 0);
    answered.resolve();
    expect(await bench.resultOf(id)).toBe(3);
    expect(proxy.cuts()).toBe(1);
    expect(worker.of('job.stale')).toEqual([]);
    const [counted] = await bench.sql(`select count(*)::integer from pgqueue.history where task = 'leaf'`);
    expect(counted).toEqual({ count: 3 });
  });

  test.each([
    ['an invalid payload', (ctx: JobContext) => ctx.all('x', [leaf.job({ n: 0.5 })]), 'jobs[0]: '],
    ['an id', (ctx: JobContext) => ctx.all('x', [leaf.job({ n: 1 }, { id: ctx.job.id })]), 'has an id'],
    [
      'the queue and key of the job itself',
      (ctx: JobContext) => ctx.all('x', [leaf.job({ n: 1 }, { key: ctx.job.key })]),
      'has the queue and the key',
    ],
  ])('refuses %s before any I/O', async (_name, call, message) => {
    const seen: unknown[] = [];
    await bench.start([
      implement(parent, async (_, ctx) => {
        seen.push(await call(ctx).catch((error: unknown) => error));
      }),
    ]);
    const { id } = await bench.producer.enqueue(parent, {}, { key: 'acme' });
    await bench.endOf(id);
    expect(seen).toMatchObject([{ code: 'invalid_job', message: expect.stringContaining(message) }]);
    expect(await bench.sql('select from pgqueue.flow')).toEqual([]);
  });

  test('ends the attempt even if the handler catches all', async () => {
    const seen: unknown[] = [];
    const { id, worker } = await started(async (ctx) => {
      try {
        return (await ctx.all('leaves', leaves(2))).length;
      } catch (error) {
        seen.push(error instanceof Suspended, await ctx.checkpoint('late'), await ctx.extend('1m'));
        seen.push(await ctx.step('late', () => 1).catch((late: unknown) => late instanceof Suspended));
        return 'caught';
      }
    });
    expect(await bench.resultOf(id)).toBe(2);
    expect(seen).toEqual([true, false, false, true]);
    expect(worker.of('job.late_error')).toEqual([]);
  });

  test('is explained', async () => {
    const slow = defineTask({ name: 'slow', payload: z.object({}), timeout: '1h' });
    await bench.start([
      implement(parent, async (_, ctx) => {
        const jobs = [1, 2].map(() => slow.job({}, { delay: '1h' }));
        await ctx.all('slow', jobs);
      }),
    ]);
    const { id } = await bench.producer.enqueue(parent, {});
    await bench.suspended(id);
    const operator = createOperator({ connectionString: bench.test.url });
    onTestFinished(() => operator.close());
    const { reasons } = await operator.explain(id);
    expect(reasons).toEqual([
      {
        kind: 'suspended',
        flow: expect.any(String),
        name: 'parent: slow',
        waits: [{ kind: 'jobs', step: 'slow', left: 2, added: 2, dead: 0, other: 0 }],
      },
    ]);
    expect(reasons.map((reason) => reasonText(reason, String))).toEqual([
      expect.stringMatching(/^suspended until flow .* \(parent: slow\) ends: slow: 2 of 2 left$/u),
    ]);
  });

  test('of a job that is cancelled goes, too', async () => {
    const slow = defineTask({ name: 'slow', payload: z.object({}), timeout: '1h' });
    await bench.start([
      implement(parent, async (_, ctx) => void (await ctx.all('slow', [slow.job({}, { delay: '1h' })]))),
    ]);
    const { id } = await bench.producer.enqueue(parent, {});
    await bench.suspended(id);
    await bench.sql('select pgqueue.cancel(array[$1::uuid])', [id]);
    expect(await bench.endOf(id)).toBe('cancelled');
    const [flow] = await bench.sql('select id::text from pgqueue.flow');
    expect(await bench.flowEnd(String(flow?.['id']))).toBe('cancelled');
    expect(await bench.sql('select from pgqueue.queue')).toEqual([]);
  });

  test('ends as cancelled if that was asked for before it suspends', async () => {
    const { id, worker } = await started(async (ctx) => {
      await bench.sql('select pgqueue.cancel(array[$1::uuid])', [ctx.job.id]);
      await ctx.all('leaves', leaves(2));
    });
    expect(await bench.endOf(id)).toBe('cancelled');
    await until('the event', () => worker.of('job.settled').length > 0);
    expect(worker.of('job.settled')).toMatchObject([{ verdict: 'cancelled' }]);
    expect(await bench.sql('select from pgqueue.flow')).toEqual([]);
  });
});
