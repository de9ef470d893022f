import type { NeedFailure } from '@pgqueue/core';
import { defineTask, flow, giveUp, implement, signal } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';
import { listed } from '../../support/isolated/listed.ts';
import { until } from '../../support/until.ts';

const bench = opened(openFlowBench);
const operator = opened(() => Promise.resolve(createOperator({ connectionString: bench.test.url })));
afterEach(() => bench.clear());

const retry = { maxTries: 1 } as const;
const page = defineTask({ name: 'page', payload: z.object({ n: z.int() }), retry });
const anyValue = z.unknown();
const sum = defineTask({ name: 'sum', payload: z.object({}), needs: { pages: page, ok: anyValue } });
const gather = defineTask({ name: 'gather', payload: z.object({}), retry });
const codeOf = (reading: Promise<unknown>): Promise<unknown> =>
  reading.then(
    () => 'read',
    (error: unknown) => (error as { readonly code?: unknown }).code,
  );
/** Page 1 has a result that can't be stored, and page 2 is dead. */
const pages = [1, 2].map((n) => page.job({ n }));
const handler = implement(page, ({ n }) => (n === 2 ? giveUp('no') : 10n));

test('a result that could not be stored is read as no value, wherever it is read', async () => {
  const note = { pgqueue_error: 'a value that looks like the note of a lost result' };
  let seen: readonly unknown[] = [];
  await bench.start([
    handler,
    implement(sum, async (_, { needs }) => {
      const failures: readonly NeedFailure[] = await listed(needs.pages.failures);
      seen = [await codeOf(listed(needs.pages)), await codeOf(needs.pages.one()), failures.length];
      return needs.ok.one();
    }),
  ]);
  const run = await bench.producer.start(
    flow('count')
      .step('pages', pages)
      .step('ok', signal(anyValue))
      .step('sum', sum.job({}), { needs: { pages: 'ended', ok: 'done' } }),
  );
  await bench.producer.signal(run.id, 'ok', note);
  expect(await run.ended()).toMatchObject({ outcome: 'done' });
  expect(seen).toEqual(['result_lost', 'result_lost', 1]);
  expect(await codeOf(listed(run.results('pages')))).toBe('result_lost');
  expect(await listed(run.results('ok'))).toEqual([{ job: null, outcome: 'done', result: note }]);
});

test('ctx.all says that a result is lost', async () => {
  let seen: unknown;
  await bench.start([
    handler,
    implement(gather, async (_, ctx) => {
      await ctx.all('pages', pages, { sameKey: true }).catch((error: unknown) => {
        seen = error;
        throw error;
      });
    }),
  ]);
  const { id } = await bench.producer.enqueue(gather, {});
  expect(await bench.endOf(id)).toBe('dead');
  expect(seen).toMatchObject({ code: 'result_lost' });
});

test('a flow keeps nothing of the result of a job that is erased, and its step stays done', async () => {
  const letter = defineTask({ name: 'letter', payload: z.object({}), result: z.string() });
  let seen: unknown;
  let read = false;
  await bench.start([
    implement(letter, () => 'Ada Lovelace, 12 St James Square'),
    implement(gather, async (_, ctx) => {
      await ctx
        .all('letters', [letter.job({})], { sameKey: true })
        .then(() => {
          read = true;
          return ctx.waitForSignal('erased');
        })
        .catch((error: unknown) => {
          seen = error;
          throw error;
        });
    }),
  ]);
  const parent = await bench.producer.enqueue(gather, {});
  const run = await bench.producer.start(flow('letters').step('letters', letter.job({})));
  expect(await run.ended()).toMatchObject({ outcome: 'done' });
  const ids = await until('both letters to be done', async () => {
    const rows = await bench.sql("select id from pgqueue.history where task = 'letter'");
    return rows.length === 2 && rows.map(({ id }) => String(id));
  });
  await until('the parent to have read the result', () => read);
  await bench.suspended(parent.id);
  await operator.jobs.erase(ids);
  expect(await codeOf(listed(run.results('letters')))).toBe('result_lost');
  await bench.producer.signalJob(parent.id, 'erased', null);
  expect(await bench.endOf(parent.id)).toBe('dead');
  expect(seen).toMatchObject({
    code: 'result_lost',
    message: expect.stringContaining('was erased') as unknown,
  });
  expect(await bench.sql("select from pgqueue.flow_result where result::text like '%Ada%'")).toEqual([]);
  expect(
    await bench.sql(
      "select done, other from pgqueue.flow_step where kind = 'jobs' and (done, other) <> (1, 0)",
    ),
  ).toEqual([]);
});
