// Marks code that must not compile with @ts-expect-error: `tsc -b` fails if it compiles. Nothing here needs a
// database: the calls are in functions that are never called.
import { defineTask, fanOut, giveUp, implement, implementBatch, isolated, snooze } from '@pgqueue/core';
import type { Enqueued, Outcome, SingleTaskHandler, TaskHandler, TaskResult } from '@pgqueue/core';
import type { Producer } from '@pgqueue/producer';
import { runHandler } from '@pgqueue/testing';
import { type } from 'arktype';
import type { HandlerOf, Queue } from 'pgqueue';
import * as v from 'valibot';
import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';

interface Words {
  words: number;
}

const payload = z.object({ url: z.string() });
const zodTask = defineTask({ name: 'fetch', payload, result: z.object({ words: z.int() }) });
const valibotTask = defineTask({ name: 'fetch', payload, result: v.object({ words: v.number() }) });
const arktypeTask = defineTask({ name: 'fetch', payload, result: type({ words: 'number' }) });
const coerced = defineTask({
  name: 'fetch',
  payload,
  result: z.object({ at: z.iso.datetime(), n: z.int().default(1) }),
});
const listTask = defineTask({ name: 'list', payload, result: z.array(z.string()) });
const plainTask = defineTask({ name: 'plain', payload });

test('the type of the result comes from its schema, in the form in which it is stored', () => {
  expectTypeOf<TaskResult<typeof zodTask>>().toEqualTypeOf<Words>();
  expectTypeOf<TaskResult<typeof valibotTask>>().toEqualTypeOf<Words>();
  expectTypeOf<TaskResult<typeof arktypeTask>>().toEqualTypeOf<Words>();
  expectTypeOf<TaskResult<typeof coerced>>().toEqualTypeOf<{ at: string; n?: number | undefined }>();
  expectTypeOf<TaskResult<typeof plainTask>>().toEqualTypeOf<unknown>();
  expect(zodTask.checkResult).toBeTypeOf('function');
  expect(plainTask.checkResult).toBeUndefined();
});

test('a handler returns the result of its task, or an outcome', () => {
  const handlers: readonly TaskHandler[] = [
    implement(zodTask, () => ({ words: 1 })),
    implement(zodTask, async ({ url }) => (url === '' ? giveUp() : Promise.resolve({ words: 1 }))),
    implement(zodTask, () => snooze('1m')),
    implement(zodTask, (_, ctx) => ctx.transaction(() => Promise.resolve({ words: 1 }))),
    implement(zodTask, isolated(new URL('file:///fetch.ts'))),
    implement(plainTask, () => {}),
    implement(plainTask, () => 5),
    implement(coerced, () => ({ at: '2026-01-01T00:00:00Z' })),
    implementBatch(zodTask, (jobs) => jobs.map(() => ({ words: 1 }))),
    implementBatch(zodTask, (jobs) =>
      jobs.map(({ id }) => (id === '' ? new Error('no') : Promise.resolve({ words: 1 }))),
    ),
    implementBatch(
      zodTask,
      (jobs) => new Map(jobs.map(({ id }) => [id, id === '' ? snooze(5) : { words: 1 }])),
    ),
    implementBatch(zodTask, () => ({ words: 1 })),
    implementBatch(zodTask, () => giveUp()),
    implementBatch(listTask, (jobs) => jobs.map(() => ['a'])),
    implementBatch(plainTask, () => {}),
    implement(zodTask, ({ url }) => (url === '' ? giveUp() : fanOut([], { words: 1 }))),
    implement(zodTask, (): Outcome => snooze('1m')),
    implement(plainTask, () => fanOut([])),
    implementBatch(zodTask, (jobs) => new Map(jobs.map(({ id }) => [id, fanOut([], { words: 1 })]))),
  ];
  expect(handlers).toHaveLength(19);
});

/** Never called: only compiled. */
export function wrongResults(): readonly TaskHandler[] {
  return [
    // @ts-expect-error: a text is no number
    implement(zodTask, () => ({ words: 'one' })),
    // @ts-expect-error: a text is no number, beside the jobs that it adds
    implement(zodTask, () => fanOut([], { words: 'one' })),
    // @ts-expect-error: nothing is returned beside the jobs that it adds
    implement(zodTask, () => fanOut([])),
    // @ts-expect-error: as in a bundle
    implementBatch(zodTask, (jobs) => jobs.map(() => fanOut([], 1))),
    // @ts-expect-error: nothing is returned
    implement(zodTask, () => {}),
    // @ts-expect-error: nothing is returned, later
    implement(valibotTask, async () => Promise.resolve()),
    // @ts-expect-error: another result
    implement(arktypeTask, async () => Promise.resolve([1])),
    // @ts-expect-error: on one path nothing is returned
    implement(zodTask, ({ url }) => (url === '' ? undefined : { words: 1 })),
    // @ts-expect-error: a transaction with another result
    implement(zodTask, (_, ctx) => ctx.transaction(() => Promise.resolve({ words: 'one' }))),
    // @ts-expect-error: a date is no text in JSON
    implement(coerced, () => ({ at: new Date() })),
    // @ts-expect-error: an element with another result
    implementBatch(zodTask, (jobs) => jobs.map(() => ({ words: 'one' }))),
    // @ts-expect-error: a Map with another result
    implementBatch(zodTask, (jobs) => new Map(jobs.map(({ id }) => [id, 5]))),
    // @ts-expect-error: one other result for all
    implementBatch(zodTask, () => 5),
    // @ts-expect-error: nothing is returned
    implementBatch(zodTask, () => {}),
    // @ts-expect-error: a list is read as one result for each job
    implementBatch(listTask, () => ['a']),
  ];
}

export const typed: HandlerOf<typeof zodTask> = ({ url }) => ({ words: url.length });
// @ts-expect-error: a handler of a module with another result
export const untyped: HandlerOf<typeof zodTask> = ({ url }) => ({ words: url });

/** Never called: only compiled. */
export async function awaitedTypes(producer: Producer, queue: Queue): Promise<void> {
  const enqueued = await producer.enqueue(zodTask, { url: 'a' });
  expectTypeOf(enqueued).toEqualTypeOf<Enqueued<Words>>();
  expectTypeOf(await producer.result(enqueued)).toEqualTypeOf<Words>();
  expectTypeOf(
    await queue.result(await queue.enqueue(valibotTask, { url: 'a' }), { timeout: '10s' }),
  ).toEqualTypeOf<Words>();
  expectTypeOf(await producer.result(enqueued.id)).toEqualTypeOf<unknown>();
  expectTypeOf(await producer.result<TaskResult<typeof zodTask>>(enqueued.id)).toEqualTypeOf<Words>();
  expectTypeOf(
    await producer.result(await producer.enqueue(plainTask, { url: 'a' })),
  ).toEqualTypeOf<unknown>();
  expectTypeOf(await producer.result(await producer.enqueueByName('fetch'))).toEqualTypeOf<unknown>();
  const [first, second] = await producer.enqueueMany([zodTask.job({ url: 'a' }), listTask.job({ url: 'b' })]);
  expectTypeOf(await producer.result(first)).toEqualTypeOf<Words>();
  expectTypeOf(await producer.result(second)).toEqualTypeOf<string[]>();
  const many = await producer.enqueueMany(['a', 'b'].map((url) => zodTask.job({ url })));
  expectTypeOf(many).toEqualTypeOf<readonly Enqueued<Words>[]>();
  const outcomes: readonly Enqueued[] = many;
  expectTypeOf(outcomes).toEqualTypeOf<readonly Enqueued[]>();
  // @ts-expect-error: an outcome of an attempt is no job
  await producer.result(snooze(1) satisfies Outcome);
  // @ts-expect-error: there is no such option
  await producer.result(enqueued, { timeOut: '1s' });
  // @ts-expect-error: results are awaited outside the transaction, after its commit
  await producer.with({ query: () => Promise.resolve({ rows: [] }) }).result(enqueued);
}

test('runHandler has the type of the result', async () => {
  const handler = implement(zodTask, ({ url }) => ({ words: url.length }));
  expectTypeOf(handler).toEqualTypeOf<SingleTaskHandler<{ url: string }, Words>>();
  const { result } = await runHandler(handler, { url: 'abc' });
  expectTypeOf(result).toEqualTypeOf<Words | undefined>();
  expect(result).toEqual({ words: 3 });
});

test('a result that does not fit fails the attempt: the problems are with its error', async () => {
  const wrong = implement(zodTask, () => ({ words: 1.5 }));
  const ran = await runHandler(wrong, { url: 'abc' });
  expect(ran).toMatchObject({ outcome: 'retry', result: undefined });
  expect(ran.error).toMatchObject({ name: 'ResultError', problems: [expect.stringMatching(/^words: /)] });
  expect(await runHandler(wrong, { url: 'abc' }, { tries: 19 })).toMatchObject({ outcome: 'dead' });
});
