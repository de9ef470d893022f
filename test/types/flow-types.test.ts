// Marks code that must not compile with @ts-expect-error: `tsc -b` fails if it compiles. The wrong calls are
// in functions that are never called.
import { defineTask, flow, implement, signal, timer } from '@pgqueue/core';
import type { Flow, Need, NewJob } from '@pgqueue/core';
import type { StepResult } from '@pgqueue/postgres';
import type { FlowRun, Producer } from '@pgqueue/producer';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';

const payload = z.object({});
const fetchPage = defineTask({
  name: 'fetch-page',
  payload: z.object({ url: z.string() }),
  result: z.object({ words: z.int() }),
});
const linkPage = defineTask({ name: 'link-page', payload, result: z.object({ links: z.array(z.string()) }) });
const other = defineTask({ name: 'other', payload });
const approval = z.object({ by: z.string() });
const sumUp = defineTask({ name: 'sum-up', payload, needs: { pages: fetchPage } });
const publish = defineTask({ name: 'publish', payload, needs: { ok: approval } });

const pages = ['a', 'b'].map((url) => fetchPage.job({ url }));
const counting = flow('count-site')
  .step('pages', pages)
  .step('sum', sumUp.job({}), { needs: { pages: 'ended' } })
  .step('ok', signal(approval), { needs: ['sum'] })
  .step('late', timer('3d'), { needs: ['sum'] })
  .step('publish', publish.job({}), { needs: { ok: 'done', late: 'done' }, wants: 'any' });

describe('a flow', () => {
  test('knows its steps', () => {
    expect(counting.steps.map(({ name }) => name)).toEqual(['pages', 'sum', 'ok', 'late', 'publish']);
    expectTypeOf(sumUp.job({}).task).toEqualTypeOf<'sum-up'>();
    expectTypeOf(pages).toExtend<readonly NewJob<{ words: number }, 'fetch-page'>[]>();
  });

  test('of steps that a loop adds is a Flow', () => {
    let chain: Flow = flow('chain');
    for (const n of [0, 1, 2])
      chain = chain.step(`copy-${n}`, other.job({}), { needs: n === 0 ? [] : [`copy-${n - 1}`] });
    chain = chain.step('sum', sumUp.job({}), { needs: ['copy-2'] });
    expect(chain.steps).toHaveLength(4);
  });

  test('takes an empty list, another flow, and jobs of several tasks', () => {
    const both = [fetchPage.job({ url: 'a' }), other.job({})];
    const outer = flow('outer')
      .step('first', both)
      .step('site', counting, { needs: ['first'] });
    expect(outer.step('end', other.job({}), { needs: { 'site.publish': 'ended' } }).steps).toHaveLength(3);
    expect(flow('none').step('pages', []).step('sum', sumUp.job({})).steps).toHaveLength(2);
  });
});

/** Never called: only compiled. */
export function stepTypes(): readonly unknown[] {
  const otherPages = flow('x').step('pages', other.job({}));
  const mixedPages = flow('x').step('pages', [other.job({}), fetchPage.job({ url: 'a' })]);
  const latePages = flow('x').step('pages', timer('3d'));
  const otherOk = flow('x').step('ok', other.job({}));
  const numberOk = flow('x').step('ok', signal(z.object({ by: z.number() })));
  const nested = flow('x').step('site', counting);
  return [
    // @ts-expect-error: there is a step of that name
    counting.step('pages', other.job({})),
    // @ts-expect-error: no such step
    counting.step('end', other.job({}), { needs: ['page'] }),
    // @ts-expect-error: no such step
    counting.step('end', other.job({}), { needs: { page: 'done' } }),
    // @ts-expect-error: no such step, beside one that is
    counting.step('end', other.job({}), { needs: { pages: 'done', page: 'done' } }),
    // @ts-expect-error: no such condition
    counting.step('end', other.job({}), { needs: { pages: 'dead' } }),
    // @ts-expect-error: no such option
    counting.step('end', other.job({}), { need: ['pages'] }),
    // @ts-expect-error: all or any
    counting.step('end', other.job({}), { needs: ['pages'], wants: 'some' }),
    // @ts-expect-error: the task needs a step that is not there
    flow('x').step('sum', sumUp.job({})),
    // @ts-expect-error: the task needs a step with other jobs
    otherPages.step('sum', sumUp.job({})),
    // @ts-expect-error: the task needs a step with such jobs only
    mixedPages.step('sum', sumUp.job({})),
    // @ts-expect-error: the task needs jobs in place of a timer
    latePages.step('sum', [sumUp.job({})]),
    // @ts-expect-error: the task needs a signal
    otherOk.step('publish', publish.job({})),
    // @ts-expect-error: the task needs a signal of another type
    numberOk.step('publish', publish.job({})),
    // @ts-expect-error: a signal has a schema
    signal(),
    // @ts-expect-error: no duration
    timer('3 days'),
    // @ts-expect-error: no jobs
    flow('x').step('a', sumUp),
    // @ts-expect-error: the payload of a job
    flow('x').step('a', fetchPage.job({ url: 5 })),
    // @ts-expect-error: a step of a nested flow has its prefix
    nested.step('end', other.job({}), { needs: ['publish'] }),
    // @ts-expect-error: a nested flow is no step itself
    nested.step('end', other.job({}), { needs: ['site'] }),
    // @ts-expect-error: no task and no schema
    defineTask({ name: 'x', payload, needs: { pages: 5 } }),
    // @ts-expect-error: a job is no task
    defineTask({ name: 'x', payload, needs: { pages: fetchPage.job({ url: 'a' }) } }),
  ];
}

/** Never called: only compiled. */
export function contextTypes(): readonly unknown[] {
  return [
    implement(sumUp, async (_, { needs }) => {
      expectTypeOf(needs.pages).toEqualTypeOf<Need<{ words: number }>>();
      let words = 0;
      for await (const { result } of needs.pages) words += result.words;
      for await (const { job, outcome } of needs.pages.failures) {
        expectTypeOf(job).toEqualTypeOf<string>();
        expectTypeOf(outcome).toEqualTypeOf<'dead' | 'cancelled' | 'expired' | 'erased'>();
      }
      return { words };
    }),
    implement(publish, async (_, { needs }) => {
      expectTypeOf(await needs.ok.one()).toEqualTypeOf<{ by: string }>();
    }),
    // @ts-expect-error: the task has no such need
    implement(sumUp, (_, { needs }) => needs.ok.done),
    // @ts-expect-error: the task has no needs
    implement(other, (_, { needs }) => needs.pages.done),
    // @ts-expect-error: a result has no such member
    implement(sumUp, async (_, { needs }) => (await needs.pages.one()).pages),
  ];
}

/** Never called: only compiled. */
export async function endTypes(producer: Producer, chain: Flow): Promise<unknown> {
  const run = await producer.start(counting);
  for await (const { result } of run.results('pages'))
    expectTypeOf(result).toEqualTypeOf<{ words: number } | null>();
  for await (const { result } of run.results('ok'))
    expectTypeOf(result).toEqualTypeOf<{ by: string } | null>();
  for await (const { result } of run.results('late')) expectTypeOf(result).toEqualTypeOf<unknown>();
  const both = await producer.start(
    flow('both').step('all', [fetchPage.job({ url: 'a' }), linkPage.job({})]),
  );
  for await (const { result } of both.results('all'))
    expectTypeOf(result).toEqualTypeOf<{ words: number } | { links: string[] } | null>();
  const outer = await producer.start(flow('outer').step('site', counting));
  for await (const { result } of outer.results('site.pages'))
    expectTypeOf(result).toEqualTypeOf<{ words: number } | null>();
  const loop = await producer.start(chain);
  expectTypeOf(loop.results('x')).toEqualTypeOf<AsyncIterable<StepResult>>();
  const later = producer.flow<typeof counting>(run.id);
  expectTypeOf(later.results('pages')).toEqualTypeOf(run.results('pages'));
  return [
    loop.results('copy-2'),
    producer.flow(run.id).results('sum'),
    // @ts-expect-error: no such step
    run.results('page'),
    // @ts-expect-error: no such step
    later.results('page'),
    // @ts-expect-error: a nested flow is no step itself
    outer.results('site'),
  ];
}

/** Never called: only compiled. */
export function startTypes(producer: Producer, chain: Flow): readonly Promise<unknown>[] {
  return [
    producer.start(counting, { key: 'acme', uniqueKey: 'site-7', deadline: '7d' }).then((run) => {
      expectTypeOf(run).toExtend<FlowRun>();
      return run.ended({ timeout: '1h' });
    }),
    producer.start(chain),
    producer.signal('id', 'ok', { by: 'ada' }),
    producer.signal('id', 'ok', { by: 'ada' }, signal(approval)),
    // @ts-expect-error: the signal takes another value
    producer.signal('id', 'ok', { by: 5 }, signal(approval)),
    // @ts-expect-error: no flow
    producer.start(sumUp.job({})),
    // @ts-expect-error: no duration
    producer.start(counting, { deadline: '7 days' }),
    // @ts-expect-error: no such option
    producer.start(counting, { priority: 1 }),
  ];
}
