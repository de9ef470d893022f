// Marks code that must not compile with @ts-expect-error: `tsc -b` fails if it compiles. The wrong calls are
// in functions that are never called.
import { defineTask, fanOut, implement } from '@pgqueue/core';
import type { EndedJob, JobContext } from '@pgqueue/core';
import type { Producer } from '@pgqueue/producer';
import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';

const page = defineTask({
  name: 'page',
  payload: z.object({ url: z.string() }),
  result: z.object({ words: z.int() }),
});
const other = defineTask({ name: 'other', payload: z.object({}) });
const approval = z.object({ by: z.string().transform((name) => name.length) });

test('an outcome that adds jobs is one of those that handlers return', () => {
  expect(implement(page, () => fanOut([other.job({})], { words: 1 })).kind).toBe('pgqueue.handler');
});

/** Never called: only compiled. */
export async function contextTypes(ctx: JobContext): Promise<void> {
  expectTypeOf(await ctx.step('a', () => 5)).toEqualTypeOf<number>();
  expectTypeOf(await ctx.step('b', () => Promise.resolve('text'))).toEqualTypeOf<string>();
  expectTypeOf(await ctx.sleep('c', '3d')).toEqualTypeOf<void>();
  const [first, second] = await ctx.all('d', [page.job({ url: 'a' }), other.job({})]);
  expectTypeOf(first).toEqualTypeOf<EndedJob<{ words: number }>>();
  if (first.outcome === 'done') expectTypeOf(first.result).toEqualTypeOf<{ words: number }>();
  else expectTypeOf(first.result).toEqualTypeOf<null>();
  expectTypeOf(second).toEqualTypeOf<EndedJob>();
  const many = await ctx.all(
    'e',
    ['a', 'b'].map((url) => page.job({ url })),
    { sameKey: true },
  );
  expectTypeOf(many).toExtend<readonly EndedJob<{ words: number }>[]>();
  expectTypeOf(await ctx.waitForSignal('f', { schema: approval, timeout: '1d' })).toEqualTypeOf<{
    by: number;
  }>();
  expectTypeOf(await ctx.waitForSignal('g')).toEqualTypeOf<unknown>();
  expectTypeOf(await ctx.addJobs([other.job({})])).toEqualTypeOf<boolean>();
}

/** Never called: only compiled. */
export function wrongCalls(ctx: JobContext, producer: Producer): readonly unknown[] {
  return [
    producer.signalJob('id', 'ok', { by: 'ada' }),
    // @ts-expect-error: a step has a name
    ctx.step(() => 5),
    // @ts-expect-error: no duration
    ctx.sleep('a', '3 days'),
    // @ts-expect-error: a task is no job
    ctx.all('b', [page]),
    // @ts-expect-error: a job alone is no list
    ctx.addJobs(page.job({ url: 'a' })),
    // @ts-expect-error: no schema
    ctx.waitForSignal('c', { schema: 5 }),
  ];
}
