import type { JobContext } from '@pgqueue/core';
import { defineTask, flow, implement } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';
import { until } from '../../support/until.ts';

const bench = opened(openFlowBench);
const operator = opened(() => Promise.resolve(createOperator({ connectionString: bench.test.url })));
afterEach(() => bench.clear());

const pay = defineTask({ name: 'pay', payload: z.object({ amount: z.int() }), retry: { maxTries: 1 } });
type Pay = (payload: { readonly amount: number }, ctx: JobContext) => unknown;

const replaced = (amount: number): ReturnType<typeof bench.producer.enqueue> =>
  bench.producer.enqueue(pay, { amount }, { uniqueKey: { key: 'invoice', onConflict: 'replace' } });
const start = (handler: Pay): Promise<unknown> => bench.start([implement(pay, handler)]);

describe('a value that was given for one payload', () => {
  const approved: Pay = async ({ amount }, ctx) => {
    const by = await ctx.waitForSignal('ok');
    if (amount === 10) await ctx.sleep('cool down', '1h');
    return { amount, by };
  };

  test('is not taken for the one that replaces it', async () => {
    await start(approved);
    const { id } = await replaced(10);
    await bench.suspended(id);
    expect(await bench.producer.signalJob(id, 'ok', 'ada')).toBe('signalled');
    await until('it to cool down', async () => {
      const rows = await bench.sql(`select from pgqueue.queue where run_after < now() + interval '1 day'`);
      return rows.length > 0;
    });
    expect(await replaced(20)).toMatchObject({ id, outcome: 'replaced' });
    expect(await bench.sql('select id from pgqueue.flow')).toEqual([]);
    await bench.sql('update pgqueue.queue set run_after = null');
    await bench.suspended(id);
    expect(await bench.producer.signalJob(id, 'ok', 'eve')).toBe('signalled');
    expect(await bench.resultOf(id)).toEqual({ amount: 20, by: 'eve' });
  });

  test('is not taken for one that replaces it before it began', async () => {
    const { id } = await replaced(10);
    expect(await bench.producer.signalJob(id, 'ok', 'ada')).toBe('signalled');
    expect(await replaced(10)).toMatchObject({ id, outcome: 'replaced' });
    expect(await bench.producer.signalJob(id, 'ok', 'eve'), 'the same payload').toBe('repeated');
    await replaced(20);
    expect(await bench.producer.signalJob(id, 'ok', 'eve')).toBe('signalled');
  });

  test('goes with a job that is erased', async () => {
    await start(approved);
    const { id } = await bench.producer.enqueue(pay, { amount: 30 });
    await bench.producer.signalJob(id, 'ok', 'ada');
    expect(await bench.resultOf(id)).toEqual({ amount: 30, by: 'ada' });
    await operator.jobs.erase([id]);
    await bench.producer.enqueue(pay, { amount: 40 }, { id });
    await bench.suspended(id);
    expect(await bench.producer.signalJob(id, 'ok', 'eve')).toBe('signalled');
    expect(await bench.resultOf(id)).toEqual({ amount: 40, by: 'eve' });
  });

  test('stays with a job that is put back, and is not taken for a later one of its id', async () => {
    let broken = true;
    await start(async ({ amount }, ctx) => {
      const by = await ctx.waitForSignal('ok');
      if (broken) throw new Error('an outage');
      return { amount, by };
    });
    const { id } = await bench.producer.enqueue(pay, { amount: 10 });
    const again = async (amount: number): Promise<void> => {
      expect(await bench.producer.enqueue(pay, { amount }, { id })).toEqual({ id, outcome: 'enqueued' });
    };
    expect(await bench.producer.signalJob(id, 'ok', 'ada')).toBe('signalled');
    expect(await bench.endOf(id)).toBe('dead');
    expect(await operator.dead.purge({ ids: [id] })).toMatchObject({ done: 1 });
    await again(20);
    await bench.suspended(id);
    expect(await bench.producer.signalJob(id, 'ok', 'bob')).toBe('signalled');
    expect(await bench.endOf(id)).toBe('dead');
    broken = false;
    await operator.dead.redrive({ ids: [id] });
    expect(await bench.resultOf(id)).toEqual({ amount: 20, by: 'bob' });
    await bench.sql('delete from pgqueue.history'); // as when its retention is over
    await again(30);
    expect(await bench.producer.signalJob(id, 'ok', 'eve')).toBe('signalled');
    expect(await bench.resultOf(id)).toEqual({ amount: 30, by: 'eve' });
  });
});

test('a job that waits in its handler keeps its payload: the new one is enqueued behind it', async () => {
  await start(async ({ amount }, ctx) => {
    if (amount === 10) await ctx.waitForSignal('ok');
    return amount;
  });
  const first = await replaced(10);
  await bench.suspended(first.id);
  const second = await replaced(20);
  expect(second.outcome).toBe('enqueued');
  expect(await bench.resultOf(second.id)).toBe(20);
  await bench.producer.signalJob(first.id, 'ok', null);
  expect(await bench.resultOf(first.id)).toBe(10);
});

test('a step that was cancelled while it waited for a signal waits anew after a retry', async () => {
  await start((_, ctx) => ctx.waitForSignal('ok'));
  const run = await bench.producer.start(flow('payment').step('pay', pay.job({ amount: 1 })));
  const [{ id } = { id: '' }] = (await until('its job to wait', async () => {
    const rows = await bench.sql('select id from pgqueue.queue where last_token is not null');
    return rows.length > 0 && rows;
  })) as readonly { readonly id: string }[];
  await operator.flows.cancel(run.id);
  await run.ended();
  await until('its wait to be over', async () => {
    const rows = await bench.sql(`select from pgqueue.flow where waiter = $1 and state <> 'open'`, [id]);
    return rows.length > 0;
  });
  expect(await operator.flows.retry(run.id)).toMatchObject({ verdict: 'retried', jobs: 1 });
  expect(await bench.producer.signalJob(id, 'ok', 'ada')).toBe('signalled');
  expect(await bench.resultOf(id)).toBe('ada');
  expect(await run.ended()).toMatchObject({ outcome: 'done' });
});

test('a job that pauses between its steps has started, and does not expire', async () => {
  await start(async ({ amount }, ctx) => {
    await ctx.step('charge', () => amount);
    await ctx.sleep('a while', '1h');
    return 'shipped';
  });
  const expiresAt = new Date(Date.now() + 60_000);
  const { id } = await bench.producer.enqueue(pay, { amount: 10 }, { expiresAt });
  await bench.suspended(id);
  expect(await bench.sql('select expires_at from pgqueue.queue')).toEqual([{ expires_at: null }]);
});

test('flows that a dead job has waited for stay until it is gone', async () => {
  const parent = defineTask({ name: 'parent', payload: z.object({}), retry: { maxTries: 1 } });
  let broken = true;
  await bench.start([
    implement(pay, ({ amount }) => {
      if (amount === 2) throw new Error('no');
      return amount;
    }),
    implement(parent, async (_, ctx) => {
      const ends = await ctx.all('payments', [pay.job({ amount: 1 }), pay.job({ amount: 2 })], {
        sameKey: true,
      });
      if (broken) throw new Error('an outage');
      return ends.map(({ outcome, result }) => [outcome, result]);
    }),
  ]);
  const { id } = await bench.producer.enqueue(parent, {});
  expect(await bench.endOf(id)).toBe('dead');
  await bench.sql(`update pgqueue.flow set ended = ended - interval '8 days'`);
  expect(await bench.sql('select pgqueue.trim_flows() as n')).toEqual([{ n: 0 }]);
  broken = false;
  await operator.dead.redrive({ ids: [id] });
  expect(await bench.resultOf(id)).toEqual([
    ['done', 1],
    ['dead', null],
  ]);
  expect(await bench.sql('select pgqueue.trim_flows() as n')).toEqual([{ n: 1 }]);
});
