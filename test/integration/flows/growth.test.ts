import type { JobContext, NeededTask, NewJob } from '@pgqueue/core';
import {
  cancelled,
  defineTask,
  fanOut,
  flow,
  implement,
  implementBatch,
  isolated,
  policy,
} from '@pgqueue/core';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';
import { grow, leaf, reader } from '../../support/isolated/growth-tasks.ts';
import { listed } from '../../support/isolated/listed.ts';
import { until } from '../../support/until.ts';

const bench = opened(openFlowBench);
const proxy = opened(() => startCutProxy(bench.test.url), { each: true });
afterEach(async () => {
  await bench.clear();
  await bench.sql('delete from pgqueue.queue_config');
});

const seed = defineTask({ name: 'seed', payload: z.object({}), retry: { base: 1 }, timeout: '1h' });

const leafHandler = implement(leaf, ({ n }) => n);

/** Sums up the results of a step; its jobs may be of other tasks than those that it began with. */
const sumOf = (task: NeededTask) => {
  const end = defineTask({ name: 'end', payload: z.object({}), needs: { all: task } });
  const handler = implement(end, async (_, { needs }) => {
    const results = (await listed(needs.all)).map(({ result }) => Number(result));
    return { done: needs.all.done, sum: results.reduce((sum, result) => sum + result, 0) };
  });
  return { job: end.job({}) as NewJob, handler };
};
const end = sumOf(seed);
const endOfLeaves = sumOf(leaf);
const endOfGrown = sumOf(grow);

const growing = (first: readonly NewJob[], last = end) =>
  flow('growing')
    .step('all', first)
    .step('end', last.job, { needs: ['all'] });

const resultOfEnd = async (): Promise<unknown> =>
  (await bench.sql(`select result from pgqueue.history where task = 'end'`))[0]?.['result'];
const leaves = () =>
  bench.sql(`select payload, key, flow, step, trace from pgqueue.queue where task = 'leaf' order by seq`);

type Growing = (ctx: JobContext) => unknown;

async function grown(handler: Growing, options: Parameters<typeof bench.start>[1] = {}) {
  const worker = await bench.start(
    [implement(seed, (_, ctx) => handler(ctx)), leafHandler, end.handler],
    options,
  );
  const run = await bench.producer.start(growing([seed.job({}, { key: 'acme' })]));
  const outcome = await bench.flowEnd(run.id);
  return { worker, outcome, result: await resultOfEnd() };
}

const three = (): readonly NewJob[] => [1, 2, 3].map((n) => leaf.job({ n }));

describe('ctx.addJobs', () => {
  test('adds jobs to the step, which goes on until they have ended', async () => {
    const { worker, ...ended } = await grown(async (ctx) => {
      expect(await ctx.addJobs(three())).toBe(true);
      expect(await ctx.addJobs([])).toBe(true);
    });
    expect(ended).toEqual({ outcome: 'done', result: { done: 4, sum: 6 } });
    expect(worker.of('enqueued')).toEqual([{ type: 'enqueued', count: 3, queue: 'default', task: 'leaf' }]);
    expect(await bench.sql(`select distinct key from pgqueue.history where task = 'leaf'`)).toEqual([
      { key: 'acme' },
    ]);
  });

  test('wakes a scheduler that sleeps', async () => {
    const pollMs = { min: 60_000, max: 60_000 };
    const { outcome } = await grown(
      async (ctx) => {
        await ctx.addJobs(three());
      },
      { scheduler: { pollMs } },
    );
    expect(outcome).toBe('done');
  });

  test('adds nothing twice when its reply is lost', async () => {
    const { outcome, result } = await grown(
      async (ctx) => {
        proxy.cutReplyOf('.add_jobs(');
        expect(await ctx.addJobs(three())).toBe(true);
      },
      { connectionString: proxy.url, listen: false },
    );
    expect(proxy.cuts()).toBe(1);
    expect({ outcome, result }).toEqual({ outcome: 'done', result: { done: 4, sum: 6 } });
  });

  test('adds nothing, and says so, when the lease was lost', async () => {
    const seen: unknown[] = [];
    await bench.start([
      implement(seed, async (_, ctx) => {
        if (seen.length > 0) return;
        await bench.sql('update pgqueue.work_queue set lock_token = gen_random_uuid() where id = $1', [
          ctx.job.id,
        ]);
        seen.push(await ctx.addJobs(three()), ctx.signal.aborted, await ctx.addJobs(three()));
      }),
    ]);
    await bench.producer.start(growing([seed.job({})]));
    await until('it to be told', () => seen.length === 3);
    expect(seen).toEqual([false, true, false]);
    expect(await leaves()).toEqual([]);
  });

  test.each<[string, readonly NewJob[], string]>([
    ['an invalid payload', [leaf.job({ n: 1 }), leaf.job({ n: 0.5 })], 'jobs[1]: '],
    ['a unique key', [leaf.job({ n: 1 }, { uniqueKey: 'u' })], 'it has a uniqueKey'],
    ['needs that this job does not read', [end.job], 'it reads the steps all'],
    [
      'an id twice',
      [1, 2].map((n) => leaf.job({ n }, { id: '01a20a81-e1c0-77bc-abac-4b5be71c52fa' })),
      'too',
    ],
    ['what is no job', [{} as NewJob], 'jobs[0] must be'],
    ['what is no list', leaf.job({ n: 1 }) as never, 'takes a list of jobs'],
  ])('refuses %s, and adds nothing', async (_name, jobs, message) => {
    const errors: unknown[] = [];
    const { result } = await grown(async (ctx) => {
      await ctx.addJobs(jobs).catch((error: unknown) => errors.push(error));
    });
    expect(errors).toMatchObject([{ code: 'invalid_job', message: expect.stringContaining(message) }]);
    expect(result).toEqual({ done: 1, sum: 0 });
  });

  test('of a job in no flow enqueues the jobs, with its trace', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await bench.start([implement(seed, async (_, ctx) => void (await ctx.addJobs([leaf.job({ n: 1 })])))]);
    const { id } = await bench.producer.enqueue(seed, {}, { key: 'acme', trace: { traceparent } });
    await bench.endOf(id);
    expect(await leaves()).toEqual([
      { payload: { n: 1 }, key: 'acme', flow: null, step: null, trace: { traceparent } },
    ]);
  });
});

describe('fanOut', () => {
  test.each<[string, Growing]>([
    ['returned', () => fanOut(three(), 10)],
    [
      'thrown',
      () => {
        // oxlint-disable-next-line typescript/only-throw-error -- an outcome may be thrown
        throw fanOut(three(), 10);
      },
    ],
  ])('%s ends the job, and adds jobs', async (_name, handler) => {
    const { worker, ...ended } = await grown(handler);
    expect(ended).toEqual({ outcome: 'done', result: { done: 4, sum: 16 } });
    expect(worker.of('enqueued')).toMatchObject([{ count: 3, task: 'leaf' }]);
    expect(worker.of('job.settled').filter(({ verdict }) => verdict !== 'done')).toEqual([]);
  });

  test('recurs: a tree grows in one step', async () => {
    await bench.start([
      implement(leaf, ({ n }) => fanOut(n === 0 ? [] : [leaf.job({ n: n - 1 }), leaf.job({ n: n - 1 })], 1)),
      endOfLeaves.handler,
    ]);
    const run = await bench.producer.start(growing([leaf.job({ n: 7 })], endOfLeaves));
    expect(await bench.flowEnd(run.id)).toBe('done');
    expect(await resultOfEnd()).toEqual({ done: 255, sum: 255 });
  });

  test.each([['7 days'], ['0']])(
    'whose reply is lost adds its jobs once, with a retention of %s',
    async (retention) => {
      await bench.sql(
        `insert into pgqueue.queue_config (queue, retention) values ('default', $1::interval)
       on conflict (queue) do update set retention = excluded.retention`,
        [retention],
      );
      let runs = 0;
      const { worker, outcome } = await grown(
        () => {
          runs += 1;
          proxy.cutReplyOf('.fan_out(');
          return fanOut(three(), 10);
        },
        { connectionString: proxy.url, listen: false },
      );
      await bench.sql('delete from pgqueue.queue_config');
      expect([proxy.cuts(), runs, outcome]).toEqual([1, 1, 'done']);
      const [count] = await bench.sql(
        `select sum(done)::integer as done from pgqueue.flow_step where name = 'all'`,
      );
      expect(count).toEqual({ done: 4 });
      // with no history, nothing tells that the first try was accepted
      const ends = retention === '0' ? worker.of('job.stale') : worker.of('job.settled');
      expect(ends.length).toBeGreaterThan(0);
    },
  );

  test.each<[string, Growing, string]>([
    ['an invalid payload', () => fanOut([leaf.job({ n: 1 }), leaf.job({ n: 0.5 })]), 'jobs[1]: '],
    [
      'a payload that is too long in the database',
      () => fanOut([seed.job({ of: Array.from({ length: 2_000 }, () => 1e300) } as never)]),
      'as PostgreSQL writes it',
    ],
  ])('with %s fails the attempt, and adds nothing', async (_name, handler, message) => {
    let runs = 0;
    const wide = defineTask({ name: 'seed', payload: z.looseObject({}), retry: { base: 1 }, timeout: '1h' });
    await bench.start([
      implement(wide, (_, ctx) => {
        runs += 1;
        return runs === 1 ? handler(ctx) : 1;
      }),
      end.handler,
    ]);
    const run = await bench.producer.start(growing([wide.job({})]));
    expect(await bench.flowEnd(run.id)).toBe('done');
    expect(await resultOfEnd()).toEqual({ done: 1, sum: 1 });
    const [row] = await bench.sql(`select tries, errors from pgqueue.history where task = 'seed'`);
    expect(row).toMatchObject({ tries: 1, errors: [{ message: expect.stringContaining(message) }] });
  });

  test('of a batch is settled apart from the others', async () => {
    const { result, outcome } = await (async () => {
      await bench.start(
        [
          implement(leaf, ({ n }) => (n === 5 ? fanOut([leaf.job({ n: 1_000 })], n) : n)),
          endOfLeaves.handler,
        ],
        { concurrency: 1 },
      );
      const jobs = Array.from({ length: 40 }, (_, n) => leaf.job({ n }));
      const run = await bench.producer.start(growing(jobs, endOfLeaves));
      return { outcome: await bench.flowEnd(run.id), result: await resultOfEnd() };
    })();
    expect({ outcome, result }).toEqual({ outcome: 'done', result: { done: 41, sum: 780 + 1_000 } });
  });

  test('is an element of a bundle, and not for all of its jobs', async () => {
    const together = {
      when: ({ task }: { readonly task: string }) => task === 'leaf',
      max: 4,
      ageMs: 500,
    };
    const sizes: number[] = [];
    await bench.start(
      [
        implementBatch(leaf, (jobs) => {
          sizes.push(jobs.length);
          if (jobs.length === 4 && sizes.length === 1) return fanOut([leaf.job({ n: 100 })]);
          return jobs.map(({ payload: { n } }) => (n === 2 ? fanOut([leaf.job({ n: 50 })], n) : n));
        }),
        endOfLeaves.handler,
      ],
      { scheduler: { policy: policy({ coalesce: [together] }) } },
    );
    const jobs = [0, 1, 2, 3].map((n) => leaf.job({ n }, { retry: { base: 1 } }));
    const run = await bench.producer.start(growing(jobs, endOfLeaves));
    await until('the first bundle to fail', () => sizes.length > 1);
    const [row] = await bench.sql(
      `select errors -> 0 ->> 'message' as message from pgqueue.job where task = 'leaf' and errors is not null limit 1`,
    );
    expect(row?.['message']).toContain('one fanOut for 4 jobs');
    expect(await bench.flowEnd(run.id)).toBe('done');
    expect(await resultOfEnd()).toEqual({ done: 5, sum: 56 });
  });

  test('is dropped when the lease was lost', async () => {
    let runs = 0;
    const { worker, ...ended } = await grown(async (ctx) => {
      runs += 1;
      if (runs > 1) return cancelled();
      await bench.sql(
        `update pgqueue.work_queue set lock_key = null, lock_token = null, lock_timeout = null, started = null where id = $1`,
        [ctx.job.id],
      );
      return fanOut(three());
    });
    expect(ended.outcome).toBe('failed');
    expect(worker.of('job.stale')).toHaveLength(1);
    expect(await leaves()).toEqual([]);
  });
});

describe('an isolated handler', () => {
  const module = new URL('../../support/isolated/growing.ts', import.meta.url);

  async function isolatedRun(how: string) {
    await bench.start([implement(grow, isolated(module)), leafHandler, endOfGrown.handler]);
    const run = await bench.producer.start(growing([grow.job({ how })], endOfGrown));
    return { outcome: await bench.flowEnd(run.id), end: await resultOfEnd() };
  }

  test.each(['addJobs', 'fanOut', 'thrown'])('adds jobs by %s', async (how) => {
    expect(await isolatedRun(how)).toEqual({ outcome: 'done', end: { done: 3, sum: null } });
    expect(await bench.sql(`select result from pgqueue.history where task = 'grow'`)).toEqual([
      { result: { added: true } },
    ]);
  });

  test.each([
    ['wrong', 'jobs[1]: '],
    ['wrong result', 'the result does not fit'],
  ])('with a fanOut that is %s fails', async (how, message) => {
    expect(await isolatedRun(how)).toMatchObject({ outcome: 'failed' });
    const [dead] = await bench.sql(`select errors -> 0 ->> 'message' as message from pgqueue.dead_letter`);
    expect(dead?.['message']).toContain(message);
  });

  test('reads the results of needed steps', async () => {
    await bench.start([implement(reader, isolated(module)), leafHandler]);
    const jobs = Array.from({ length: 250 }, (_, n) => leaf.job({ n }));
    const run = await bench.producer.start(
      flow('read')
        .step('leaves', jobs)
        .step('reader', reader.job({ how: 'needs' }), { needs: ['leaves'] }),
    );
    expect(await bench.flowEnd(run.id)).toBe('done');
    const [row] = await bench.sql(`select result from pgqueue.history where task = 'reader'`);
    const { results } = z.object({ results: z.array(z.number()) }).parse(row?.['result']);
    expect(results.toSorted((a, b) => a - b)).toEqual(jobs.map((_, n) => n));
  });
});
