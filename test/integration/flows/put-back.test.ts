import type { TaskHandler } from '@pgqueue/core';
import { defineTask, flow, implement } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';
import { listed } from '../../support/isolated/listed.ts';
import { until } from '../../support/until.ts';

/** Dead jobs that are put back while others read, or wait for, what has become of them. */
const bench = opened(openFlowBench);
const operator = opened(() => Promise.resolve(createOperator({ connectionString: bench.test.url })));
afterEach(() => bench.clear());

const page = defineTask({ name: 'page', payload: z.object({ n: z.int() }), retry: { maxTries: 1 } });
const gather = defineTask({ name: 'gather', payload: z.object({}), retry: { maxTries: 1 } });
const sum = defineTask({
  name: 'sum',
  payload: z.object({}),
  needs: { pages: page },
  retry: { maxTries: 1 },
});
const pages = [1, 2].map((n) => page.job({ n }));

/** Page 2 fails while it is broken; then it runs until it is released. Without results, as most jobs. */
function brokenPage(): {
  readonly handler: TaskHandler;
  readonly mend: () => void;
  readonly release: () => void;
} {
  let broken = true;
  const released = Promise.withResolvers<void>();
  const handler = implement(page, async ({ n }) => {
    if (n === 1) return;
    if (broken) throw new Error('an outage');
    await released.promise;
  });
  return { handler, mend: () => (broken = false), release: () => released.resolve() };
}

const running = (task: string): Promise<unknown> =>
  until(`${task} to run`, async () => {
    const rows = await bench.sql(`select from pgqueue.job where task = $1 and status = 'running'`, [task]);
    return rows.length > 0;
  });

async function gathered() {
  const { handler, ...broken } = brokenPage();
  const seen: unknown[] = [];
  await bench.start([
    handler,
    implement(gather, async (_, ctx) => {
      const ends = (await ctx.all('pages', pages)).map(({ outcome }) => outcome);
      seen.push(ends);
      if (ends.includes('dead')) throw new Error('a page is missing');
    }),
  ]);
  const { id } = await bench.producer.enqueue(gather, {});
  expect(await bench.endOf(id)).toBe('dead');
  broken.mend();
  const [child] = await bench.sql('select id::text, state from pgqueue.flow');
  expect(child?.['state']).toBe('failed');
  return { ...broken, id, seen, flow: String(child?.['id']) };
}

test('ctx.all waits for a job that was put back together with its own', async () => {
  const { id, seen, release, flow: child } = await gathered();
  await operator.dead.redrive({ task: 'page' });
  await running('page');
  await operator.dead.redrive({ task: 'gather' });
  await bench.suspended(id);
  release();
  expect(await bench.resultOf(id)).toBeNull();
  expect(seen).toEqual([
    ['done', 'dead'],
    ['done', 'done'],
  ]);
  expect(await bench.flowEnd(child)).toBe('done');
});

test('a retry of the flow that a dead job has waited for runs to its end, though the leader looks at it', async () => {
  const { id, release, flow: child } = await gathered();
  expect(await operator.flows.retry(child)).toMatchObject({ verdict: 'retried', jobs: 1 });
  await running('page');
  const looks = (): Promise<unknown> =>
    bench.sql(
      `select pgqueue.advance_flows(leader, epoch, '{"from": 0, "max": 50, "walk": "00000000-0000-0000-0000-000000000000"}')
       from pgqueue.scheduler_lease`,
    );
  await looks();
  expect(await bench.sql('select stopping from pgqueue.flow')).toEqual([{ stopping: null }]);
  release();
  expect(await bench.flowEnd(child)).toBe('done');
  await operator.dead.redrive({ ids: [id] });
  expect(await bench.resultOf(id)).toBeNull();
});

test('ctx.needs tells the former end of a job that was put back until it has ended again', async () => {
  const { handler, mend, release } = brokenPage();
  const seen: unknown[] = [];
  await bench.start([
    handler,
    implement(sum, async (_, { needs }) => {
      const { failed, other } = needs.pages;
      const failures = (await listed(needs.pages.failures)).map(({ outcome }) => outcome);
      seen.push({ failed, other, failures });
      if (failures.length > 0) throw new Error('a page is missing');
    }),
  ]);
  const run = await bench.producer.start(
    flow('count')
      .step('pages', pages)
      .step('sum', sum.job({}), { needs: { pages: 'ended' } }),
  );
  expect(await run.ended()).toMatchObject({ outcome: 'failed' });
  const missing = { failed: 1, other: 0, failures: ['dead'] };
  mend();
  await operator.dead.redrive({ task: 'page' });
  await running('page');
  // the leader has counted that it is back
  await until('its count', async () => {
    const rows = await bench.sql(`select from pgqueue.flow_step where name = 'pages' and failed = 0`);
    return rows.length > 0;
  });
  await operator.dead.redrive({ task: 'sum' });
  await until('it to die again', () => seen.length === 2);
  expect(seen).toEqual([missing, missing]);
  const [{ id } = {}] = (await until('its death', async () => {
    const rows = await bench.sql(`select id::text from pgqueue.dead_letter where task = 'sum'`);
    return rows.length > 0 && rows;
  })) as readonly { readonly id: string }[];
  release();
  await until('the page to be done', async () => {
    const rows = await bench.sql(`select from pgqueue.flow_step where name = 'pages' and done = 2`);
    return rows.length > 0;
  });
  await operator.dead.redrive({ task: 'sum' });
  await bench.resultOf(String(id));
  expect(seen.at(-1)).toEqual({ failed: 0, other: 0, failures: [] });
  expect(await operator.flows.retry(run.id)).toMatchObject({ verdict: 'retried', jobs: 0 });
  await until('the flow to be done', async () => (await operator.flows.show(run.id)).state === 'done');
});
