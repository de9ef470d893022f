import type { JobContext } from '@pgqueue/core';
import { defineTask, fanOut, flow, implement, isolated, signal } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { durableTask } from '../../support/actors/durable-task.ts';
import { opened } from '../../support/database.ts';
import { useActors } from '../../support/encryption/actors.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';
import { listed } from '../../support/isolated/listed.ts';
import { until } from '../../support/until.ts';

const bench = opened(openFlowBench);

const codec = codecOf(['new', 'old']);
const { operating, producing } = useActors(bench, { codec });
/** Rows of every table that have a text in them. */
async function found(text: string): Promise<readonly string[]> {
  const tables = await bench.sql(
    `select relname from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'p') order by 1`,
  );
  const rows = await Promise.all(
    tables.map(({ relname }) =>
      bench.sql(
        `select '${String(relname)}: ' || t::text as row from pgqueue.${String(relname)} t where t::text like $1`,
        [`%${text}%`],
      ),
    ),
  );
  return rows.flat().map(({ row }) => String(row));
}

const page = defineTask({
  name: 'page',
  payload: z.object({ n: z.int(), secret: z.string() }),
  result: z.object({ out: z.string() }),
  retry: { maxTries: 1 },
});
const extra = defineTask({
  name: 'extra',
  payload: z.object({ secret: z.string() }),
  retry: { maxTries: 1 },
});
const approval = z.object({ by: z.string() });
const sum = defineTask({
  name: 'sum',
  payload: z.object({ secret: z.string() }),
  needs: { pages: page, ok: approval },
  retry: { base: 1, jitter: 0 },
});

const pageHandler = implement(page, async ({ n, secret }, ctx) => {
  if (n === 0) await ctx.addJobs([extra.job({ secret: 'canary added' })]);
  if (n === 1) return fanOut([extra.job({ secret: 'canary fanned out' })], { out: `canary ${secret}` });
  return { out: `canary ${secret}` };
});
const extraHandler = implement(extra, ({ secret }) => ({ of: secret }));
const read = async (secret: string, ctx: JobContext) => {
  const { pages, ok } = ctx.needs as {
    readonly pages: AsyncIterable<{ result: unknown }>;
    readonly ok: { one(): Promise<unknown> };
  };
  const results: unknown[] = [];
  for await (const { result } of pages) results.push(result);
  return { secret, ok: await ok.one(), results };
};
const flowOf = () =>
  flow('counting')
    .step(
      'pages',
      [0, 1, 2].map((n) => page.job({ n, secret: `canary ${n}` })),
    )
    .step('ok', signal(approval))
    .step('sum', sum.job({ secret: 'canary sum' }), { needs: ['pages', 'ok'] });

describe('a flow', () => {
  test.each([true, false])(
    'has payloads, results, added jobs and signals encrypted; signalled by the operator: %s',
    async (byOperator) => {
      await bench.start([pageHandler, extraHandler, implement(sum, ({ secret }, ctx) => read(secret, ctx))], {
        codec,
      });
      const producer = producing();
      const run = await producer.start(flowOf());
      expect(await found('canary')).toEqual([]);
      const signalled = byOperator
        ? operating(codec).flows.signal(run.id.toUpperCase(), 'ok', { by: 'canary' })
        : producer.signal(run.id, 'ok', { by: 'canary' }, signal(approval));
      expect(await signalled).toBe('signalled');
      expect(await run.ended()).toMatchObject({ outcome: 'done' });
      expect(await found('canary')).toEqual([]);
      const { flows } = operating(codec);
      const [end] = (await flows.results(run.id, 'sum')).items;
      expect(end?.result).toMatchObject({ secret: 'canary sum', ok: { by: 'canary' } });
      const { results } = (end ?? { result: { results: [] } }).result as {
        readonly results: readonly unknown[];
      };
      expect(results).toHaveLength(5);
      expect(results).toEqual(
        expect.arrayContaining([
          { out: 'canary canary 0' },
          { of: 'canary added' },
          { of: 'canary fanned out' },
        ]),
      );
      expect((await flows.results(run.id, 'ok')).items).toEqual([
        { job: null, outcome: 'done', result: { by: 'canary' } },
      ]);
      expect((await operating().flows.results(run.id, 'ok')).items).toMatchObject([
        { result: { $enc: expect.stringMatching('^1:new:') as string } },
      ]);
      for (const step of ['sum', 'ok']) {
        await expect(listed(bench.producer.flow(run.id).results(step))).rejects.toMatchObject({
          code: 'key_missing',
        });
        expect(await listed(producer.flow(run.id).results(step))).toHaveLength(1);
      }
    },
  );

  test.each([
    ['the key of a result', { codec: codecOf(['new'], { plain: 'accept' }) }],
    ['a codec', {}],
  ])('whose reader lacks %s: the reader waits, uncounted', async (_what, options) => {
    await bench.start([pageHandler, extraHandler], { codec: codecOf(['newest'], { plain: 'accept' }) });
    const reader = await bench.start([implement(sum, ({ secret }, ctx) => read(secret, ctx))], options);
    const { producer } = bench;
    const run = await producer.start(flowOf());
    await producer.signal(run.id, 'ok', { by: 'canary' });
    await until('the reader to wait', async () => {
      const [row] = await bench.sql(`select tries, crashes, run_after from pgqueue.queue where task = 'sum'`);
      return row !== undefined && row['run_after'] !== null && row;
    });
    const [row] = await bench.sql(`select tries, crashes, errors from pgqueue.queue where task = 'sum'`);
    expect(row).toEqual({ tries: 0, crashes: 0, errors: null });
    expect(reader.of('codec.key_missing')).toHaveLength(1);
  });

  test('a payload that is too long once it is encoded is refused, with its step', async () => {
    const long = flow('long').step('pages', [
      page.job({ n: 0, secret: '' }),
      page.job({ n: 1, secret: 'x'.repeat(200_000) }),
    ]);
    await expect(producing().start(long)).rejects.toMatchObject({
      code: 'invalid_flow',
      message: expect.stringMatching(
        /step "pages", jobs\[1\]: payload has 266\d{3} bytes once it is encoded/,
      ) as string,
    });
  });
});

describe('a durable function', () => {
  const leaf = implement(
    defineTask({ name: 'leaf', payload: z.object({ n: z.int() }), retry: { maxTries: 1 } }),
    ({ n }) => `canary ${n}`,
  );

  test.each([
    ['in the node', undefined],
    ['in a process of its own', isolated(new URL('../../support/isolated/durable.ts', import.meta.url))],
  ])('%s: steps, waits, their jobs and signals are encrypted', async (_where, apart) => {
    const handler = async (_: unknown, ctx: JobContext) => {
      const step = await ctx.step('step', () => 'canary step');
      const leaves = await ctx.all('leaves', [leaf.task.job({ n: 1 }), leaf.task.job({ n: 2 })]);
      const ok = await ctx.waitForSignal('ok', { schema: approval });
      return { step, leaves, ok };
    };
    await bench.start([implement(durableTask, apart ?? handler), leaf], { codec });
    const producer = producing();
    const { id } = await producer.enqueue(durableTask, {});
    await until('it to wait for the signal', async () => {
      const rows = await bench.sql(`select from pgqueue.flow where name like '%: ok' and state = 'open'`);
      return rows.length > 0;
    });
    expect(await found('canary')).toEqual([]);
    expect(await bench.sql('select checkpoint from pgqueue.queue where id = $1', [id])).toMatchObject([
      { checkpoint: { $enc: expect.stringMatching('^1:new:') as string } },
    ]);
    const signalled =
      apart === undefined
        ? producer.signalJob(id, 'ok', { by: 'canary' })
        : operating(codec).jobs.signal(id.toUpperCase(), 'ok', { by: 'canary' });
    expect(await signalled).toBe('signalled');
    expect(await producer.result(id)).toMatchObject({
      step: apart === undefined ? 'canary step' : 'once',
      leaves: [{ result: 'canary 1' }, { result: apart === undefined ? 'canary 2' : 'canary 9' }],
      ok: { by: 'canary' },
    });
    expect(await found('canary')).toEqual([]);
  });

  test('a checkpoint that was moved from another job ends the job, which is dead', async () => {
    const gate = Promise.withResolvers<void>();
    const steps = implement(durableTask, async (_, ctx) => {
      await ctx.step('step', () => ctx.job.id);
      await ctx.sleep('night', '1d');
      gate.resolve();
      return null;
    });
    await bench.start([steps], { codec });
    const producer = producing();
    const [one, other] = await producer.enqueueMany([durableTask.job({}), durableTask.job({})]);
    await bench.suspended(one.id);
    await bench.suspended(other.id);
    await bench.sql(
      `update pgqueue.queue set run_after = null, checkpoint = (select checkpoint from pgqueue.queue where id = $2) where id = $1`,
      [one.id, other.id],
    );
    await operating().jobs.runNow([one.id]);
    expect(await bench.endOf(one.id)).toBe('dead');
    expect((await bench.job(one.id)).lastError?.message).toMatch(
      /^the checkpoint of job .* can't be decrypted/,
    );
  });
});
