// Marks code that must not compile with @ts-expect-error: `tsc -b` fails if it compiles. Nothing here needs a
// database: the wrong calls are in functions that are never called.
import { defineTask, implement, implementBatch } from '@pgqueue/core';
import type {
  BatchContext,
  BatchJob,
  JobContext,
  NewJob,
  SingleTaskHandler,
  Task,
  TaskHandler,
  TaskInput,
} from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import type { Enqueuer } from '@pgqueue/producer';
import { runHandler } from '@pgqueue/testing';
import { type } from 'arktype';
import * as pgqueue from 'pgqueue';
import * as v from 'valibot';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';

interface Input {
  readonly to: string;
  readonly at: string;
}
interface Output {
  readonly to: string;
  readonly at: Date;
}

const zodSchema = z.object({ to: z.string(), at: z.string().transform((text) => new Date(text)) });
const valibotSchema = v.object({
  to: v.string(),
  at: v.pipe(
    v.string(),
    v.transform((text) => new Date(text)),
  ),
});
const arktypeSchema = type({ to: 'string', at: 'string.date.parse' });

const zodTask = defineTask({ name: 'mail', payload: zodSchema, key: (payload) => payload.at.slice(0, 4) });
const valibotTask = defineTask({
  name: 'mail',
  payload: valibotSchema,
  key: (payload) => payload.at.slice(0, 4),
});
const arktypeTask = defineTask({
  name: 'mail',
  payload: arktypeSchema,
  key: (payload) => payload.at.slice(0, 4),
});

const given: Input = { to: 'a@example.com', at: '2026-01-02T03:04:05.000Z' };

describe.each([
  ['zod', zodTask],
  ['valibot', valibotTask],
  ['arktype', arktypeTask],
])('%s', (_name, task: Task<Input, Output>) => {
  test('the key sees the input, the handler the output', async () => {
    expect(task.job(given).options.key).toBe('2026');
    expect(await task.job(given).check(given)).toEqual([]);
    expect(await task.parse(given)).toEqual({ ok: true, payload: { to: given.to, at: new Date(given.at) } });
  });

  test('what does not fit is told', async () => {
    expect(await task.parse({ to: 1, at: given.at })).toEqual({
      ok: false,
      problems: [expect.stringMatching(/^to: /)],
    });
    expect(await task.job({ ...given, at: 5 } as never).check({ ...given, at: 5 })).toContainEqual(
      expect.stringMatching(/^at: /),
    );
  });
});

test('types flow from the schema to both ends', () => {
  expectTypeOf<TaskInput<typeof zodTask>>().toEqualTypeOf<{ to: string; at: string }>();
  expectTypeOf<TaskInput<typeof valibotTask>>().toEqualTypeOf<{ to: string; at: string }>();
  expectTypeOf<TaskInput<typeof arktypeTask>>().toEqualTypeOf<{ to: string; at: string }>();
  const handlers: readonly TaskHandler[] = [
    implement(zodTask, (payload, context) => {
      expectTypeOf(payload).toEqualTypeOf<{ to: string; at: Date }>();
      expectTypeOf(context).toEqualTypeOf<JobContext>();
    }),
    implement(valibotTask, (payload) => {
      expectTypeOf(payload).toEqualTypeOf<{ to: string; at: Date }>();
    }),
    implement(arktypeTask, (payload) => {
      expectTypeOf(payload).toEqualTypeOf<{ to: string; at: Date }>();
    }),
    implementBatch(zodTask, (jobs, context) => {
      expectTypeOf(jobs).toEqualTypeOf<readonly BatchJob<{ to: string; at: Date }>[]>();
      expectTypeOf(context).toEqualTypeOf<BatchContext>();
      return context.transaction(() => Promise.resolve(), { jobs: jobs.slice(1) });
    }),
  ];
  expect(handlers).toHaveLength(4);
  expectTypeOf(zodTask.job).parameter(0).toEqualTypeOf<{ to: string; at: string }>();
  expectTypeOf(zodTask.job).returns.toExtend<NewJob>();
});

/** Never called: only compiled. */
export function enqueueTypes(enqueuer: Enqueuer): readonly Promise<unknown>[] {
  return [
    enqueuer.enqueue(zodTask, given),
    enqueuer.enqueue(valibotTask, given, { delay: '5m', uniqueKey: { key: 'u', onConflict: 'debounce' } }),
    enqueuer.enqueue(zodTask, given, { uniqueKey: { key: 'u', onConflict: 'debounce', maxWait: '30s' } }),
    enqueuer.enqueue(zodTask, given, { uniqueKey: { key: 'u', onConflict: 'supersede' } }),
    enqueuer.enqueue(arktypeTask, given),
    enqueuer.enqueueMany([zodTask.job(given), valibotTask.job(given)]),
    // @ts-expect-error: a field is missing
    enqueuer.enqueue(zodTask, { to: 'a' }),
    // @ts-expect-error: the handler's payload is not the enqueued one
    enqueuer.enqueue(zodTask, { to: 'a', at: new Date() }),
    // @ts-expect-error: the handler's payload is not the enqueued one
    enqueuer.enqueue(valibotTask, { to: 'a', at: new Date() }),
    // @ts-expect-error: the handler's payload is not the enqueued one
    enqueuer.enqueue(arktypeTask, { to: 'a', at: new Date() }),
    // @ts-expect-error: a field of another type
    enqueuer.enqueue(valibotTask, { ...given, to: 5 }),
    // @ts-expect-error: a field that the schema does not have
    enqueuer.enqueue(arktypeTask, { to: 'a', at: 'b', cc: 'c' }),
    // @ts-expect-error: no payload
    enqueuer.enqueue(zodTask),
    // @ts-expect-error: in a batch too
    enqueuer.enqueueMany([zodTask.job({ to: 'a' })]),
    // @ts-expect-error: no such option
    enqueuer.enqueue(zodTask, given, { prioriti: 1 }),
    // @ts-expect-error: no duration
    enqueuer.enqueue(zodTask, given, { delay: '5 minutes' }),
    // @ts-expect-error: no such mode
    enqueuer.enqueue(zodTask, given, { uniqueKey: { key: 'u', onConflict: 'drop' } }),
    // @ts-expect-error: attributes are flat
    enqueuer.enqueue(zodTask, given, { attributes: { a: { b: 1 } } }),
    // @ts-expect-error: a name is no task
    enqueuer.enqueue('mail', given),
  ];
}

/** Never called: only compiled. */
export function runHandlerTypes(): readonly Promise<unknown>[] {
  const mail = implement(zodTask, () => {});
  const bill = implement(defineTask({ name: 'bill', payload: z.object({ cents: z.int() }) }), () => {});
  const mixed: readonly TaskHandler[] = [mail, bill, implementBatch(zodTask, () => {})];
  const single: readonly SingleTaskHandler[] = [mail, bill];
  return [
    runHandler(mail, given, { tries: 1 }),
    runHandler(bill, { cents: 5 }),
    ...[...mixed, ...single].map((handler) => runHandler(handler, { anything: true })),
    // @ts-expect-error: a field of another type
    runHandler(bill, { cents: 'x' }),
    // @ts-expect-error: a field that the schema does not have
    runHandler(bill, { cents: 5, to: 'a' }),
    // @ts-expect-error: the handler's payload is not the enqueued one
    runHandler(mail, { to: 'a', at: new Date() }),
    // @ts-expect-error: no payload
    runHandler(mail),
  ];
}

/** Never called: only compiled. */
export function definitionTypes(): readonly unknown[] {
  return [
    // @ts-expect-error: a handler for the enqueued payload, where the schema transforms it
    implement(zodTask, (payload: Input) => payload),
    // @ts-expect-error: a handler for another payload
    implement(valibotTask, (payload: { readonly to: number }) => payload),
    // @ts-expect-error: a handler of bundles for the enqueued payload
    implementBatch(zodTask, (jobs: readonly BatchJob<Input>[]) => jobs),
    // @ts-expect-error: a handler that takes the list of jobs for a payload
    implementBatch(zodTask, (jobs) => jobs.to),
    // @ts-expect-error: a handler that reads what is not there
    implement(arktypeTask, (payload) => payload.cc),
    // @ts-expect-error: the key is derived from the input, which has no such field
    defineTask({ name: 'mail', payload: zodSchema, key: (payload) => payload.tenant }),
    // @ts-expect-error: the key is derived from the input, where this is a text still
    defineTask({ name: 'mail', payload: zodSchema, key: (payload) => payload.at.toISOString() }),
    // @ts-expect-error: a key is a text
    defineTask({ name: 'mail', payload: zodSchema, key: () => 5 }),
    // @ts-expect-error: attributes are flat
    defineTask({ name: 'mail', payload: zodSchema, attributes: (payload) => ({ payload }) }),
    // @ts-expect-error: no Standard Schema
    defineTask({ name: 'mail', payload: { to: 'string' } }),
    // @ts-expect-error: no such option
    defineTask({ name: 'mail', payload: zodSchema, retries: 5 }),
    // @ts-expect-error: a trace source gives a trace context
    createProducer({ trace: () => 5 }),
    createProducer({
      // as OpenTelemetry's propagation fills its carrier
      trace: () => {
        const carrier = {};
        Object.assign(carrier, { traceparent: 'x' });
        return carrier;
      },
    }),
  ];
}

test('pgqueue exports every order', () => {
  const orders = ['byScore', 'earliestDeadline', 'fairShare', 'fifo', 'ranked', 'strictPriority', 'turns'];
  expect(Object.keys(pgqueue)).toEqual(expect.arrayContaining(orders));
});
