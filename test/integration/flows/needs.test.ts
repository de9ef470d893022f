import type { JobContext } from '@pgqueue/core';
import { defineTask, flow, giveUp, implement, signal } from '@pgqueue/core';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';
import { listed } from '../../support/isolated/listed.ts';
import { until } from '../../support/until.ts';

const bench = opened(openFlowBench);
afterEach(() => bench.clear());

const page = defineTask({
  name: 'page',
  payload: z.object({ n: z.int(), dies: z.boolean().default(false) }),
  result: z.object({ words: z.int() }),
  retry: { maxTries: 1 },
});
const sum = defineTask({ name: 'sum', payload: z.object({}), needs: { pages: page }, timeout: '1h' });
const total = defineTask({ name: 'total', payload: z.object({}), needs: { sum } });
const approval = z.object({ by: z.string().transform((name) => name.toUpperCase()) });
const publish = defineTask({
  name: 'publish',
  payload: z.object({}),
  needs: { ok: approval },
  retry: { maxTries: 1 },
});

const pageHandler = implement(page, ({ n, dies }) => (dies ? giveUp('no') : { words: n }));
const sumHandler = implement(sum, async (_, { needs }) => {
  let words = 0;
  for await (const { result } of needs.pages) words += result.words;
  return words;
});

test('a chain reads the results of the step before, each once', async () => {
  await bench.start([
    pageHandler,
    sumHandler,
    implement(total, async (_, { needs }) => ({ all: await needs.sum.one(), done: needs.sum.done })),
  ]);
  const chain = flow('chain')
    .step('pages', [page.job({ n: 1 }), page.job({ n: 2 })])
    .step('sum', sum.job({}), { needs: ['pages'] })
    .step('total', total.job({}, { id: '01a20a81-e1c0-77bc-abac-4b5be71c52fa' }), { needs: ['sum'] });
  const { id } = await bench.producer.start(chain);
  expect(await bench.flowEnd(id)).toBe('done');
  expect(await bench.job('01a20a81-e1c0-77bc-abac-4b5be71c52fa')).toMatchObject({
    result: { all: 3, done: 1 },
  });
});

test('a fan-in streams thousands of results, and lists the dead apart', async () => {
  const seen: unknown[] = [];
  await bench.start([
    pageHandler,
    implement(sum, async (_, { needs: { pages } }) => {
      const jobs: string[] = [];
      let words = 0;
      for await (const { job, result } of pages) {
        jobs.push(job);
        words += result.words;
      }
      const dead = await listed(pages.failures);
      seen.push({ words, sorted: jobs.join() === jobs.toSorted().join(), count: new Set(jobs).size });
      seen.push(dead.map(({ outcome }) => outcome));
      seen.push([pages.outcome, pages.done, pages.failed, pages.other]);
    }),
  ]);
  const jobs = Array.from({ length: 3_000 }, (_, n) => page.job({ n, dies: n >= 2_997 }));
  const all = flow('fan-in')
    .step('pages', jobs)
    .step('sum', sum.job({}), { needs: { pages: 'ended' } });
  const { id } = await bench.producer.start(all);
  expect(await bench.flowEnd(id)).toBe('done');
  expect(seen).toEqual([
    { words: (2_996 * 2_997) / 2, sorted: true, count: 2_997 },
    ['dead', 'dead', 'dead'],
    ['failed', 2_997, 3, 0],
  ]);
});

test('a nested flow reads its own steps, whose names have a prefix', async () => {
  await bench.start([pageHandler, sumHandler]);
  const inner = flow('inner')
    .step('pages', [page.job({ n: 4 })])
    .step('sum', sum.job({}), { needs: ['pages'] });
  const outer = flow('outer')
    .step('pages', [page.job({ n: 1 })])
    .step('site', inner, { needs: ['pages'] });
  const { id } = await bench.producer.start(outer);
  expect(await bench.flowEnd(id)).toBe('done');
  expect(await bench.sql(`select result from pgqueue.history where task = 'sum'`)).toEqual([{ result: 4 }]);
});

describe('a signal', () => {
  const approved = flow('approved')
    .step('ok', signal(z.any()))
    .step('publish', publish.job({}), { needs: ['ok'] });

  test('is read as the schema of the task gives it', async () => {
    await bench.start([implement(publish, async (_, { needs }) => needs.ok.one())]);
    const { id } = await bench.producer.start(approved);
    await bench.producer.signal(id, 'ok', { by: 'ada' });
    expect(await bench.flowEnd(id)).toBe('done');
    expect(await bench.sql('select result from pgqueue.history')).toEqual([{ result: { by: 'ADA' } }]);
  });

  test('that does not fit fails its reader', async () => {
    await bench.start([implement(publish, async (_, { needs }) => needs.ok.one())]);
    const { id } = await bench.producer.start(approved);
    await bench.producer.signal(id, 'ok', { by: 5 });
    expect(await bench.flowEnd(id)).toBe('failed');
    const [dead] = await bench.sql(`select errors -> 0 ->> 'message' as message from pgqueue.dead_letter`);
    expect(dead?.['message']).toMatch(/the value of the signal "ok" does not fit .*: by: /);
  });
});

test('who lost the lease reads no page: a list that is cut short would look complete', async () => {
  const seen: unknown[] = [];
  await bench.start([
    pageHandler,
    implement(sum, async (_, { needs, job, signal: aborted }) => {
      if (seen.length > 0) return;
      seen.push('began');
      const results = needs.pages[Symbol.asyncIterator]();
      await results.next();
      await bench.sql('update pgqueue.work_queue set lock_token = gen_random_uuid() where id = $1', [job.id]);
      try {
        for (;;) if ((await results.next()).done === true) break;
        seen.push('the end');
      } catch (error) {
        seen.push((error as { readonly code?: string }).code, aborted.aborted);
      }
    }),
  ]);
  const jobs = Array.from({ length: 300 }, (_, n) => page.job({ n }));
  await bench.producer.start(
    flow('lost')
      .step('pages', jobs)
      .step('sum', sum.job({}), { needs: ['pages'] }),
  );
  await until('the reader to end', () => seen.length === 3);
  expect(seen).toEqual(['began', 'lease_lost', true]);
});

describe('a need that is not there', () => {
  const readers: [string, (ctx: JobContext) => unknown, object][] = [
    ['is refused when it is read', ({ needs }) => (needs as { pages: unknown }).pages, { code: 'not_found' }],
    ['does not keep the handler from running', () => 'well', {}],
  ];
  test.each(readers)('%s', async (_name, read, error) => {
    const seen: unknown[] = [];
    await bench.start([
      implement(sum, (_, ctx) => {
        try {
          read(ctx);
          seen.push({});
        } catch (thrown) {
          seen.push(thrown);
        }
      }),
    ]);
    await bench.sql(`insert into pgqueue.queue (task) values ('sum')`);
    await until('it to run', () => seen.length > 0);
    expect(seen[0]).toMatchObject(error);
  });
});
