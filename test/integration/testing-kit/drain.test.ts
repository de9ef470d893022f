import type { Policy } from '@pgqueue/core';
import { defineTask, fanOut, fifo, gate, giveUp, implement, policy, retryAfter, snooze } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { drain, runHandler } from '@pgqueue/testing';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { until } from '../../support/until.ts';

const greet = defineTask({ name: 'greet', payload: z.object({ n: z.number() }), retry: { maxTries: 3 } });
const double = implement(greet, ({ n }) => n * 2);

const { test: database, operator } = useDatabase();
const producer = opened(() => createProducer({ connectionString: database.url, notify: false }));

// beside everything else that is tested
beforeAll(() => void vi.stubEnv('PGQUEUE_TEST_TIMEOUT_MS', '25000'));
afterEach(() => {
  vi.useRealTimers();
  return database.clear();
});
afterAll(() => vi.unstubAllEnvs());

test('runs what is due, in order, and says what came of each job', async () => {
  for (const n of [1, 2, 3]) await producer.enqueue(greet, { n }, { key: 'acme' });
  const { jobs, counts, left } = await drain({ database, tasks: [double] });
  expect(jobs.map(({ task, key, outcome, result }) => [task, key, outcome, result])).toEqual([
    ['greet', 'acme', 'done', 2],
    ['greet', 'acme', 'done', 4],
    ['greet', 'acme', 'done', 6],
  ]);
  expect(counts).toMatchObject({ done: 3, retry: 0 });
  expect(left).toEqual({ pending: 0, delayed: 0, ready: 0, held: {}, nextInMs: null });
  expect(await operator.jobs.get(jobs[0]?.id ?? '')).toMatchObject({ status: 'done', result: 2 });
});

test('has the very error that a handler threw, also where a codec encrypts errors', async () => {
  const error = Object.assign(new RangeError('down'), { code: 'E_DOWN' });
  const payload = z.object({});
  const retry = { maxTries: 1 };
  const ways = [
    implement(defineTask({ name: 'thrown', payload, retry }), () => Promise.reject(error)),
    implement(defineTask({ name: 'given up', payload }), () => giveUp(error)),
    implement(defineTask({ name: 'retried', payload }), () => retryAfter('1h', error)),
    implement(defineTask({ name: 'late', payload }), async (_, ctx) => {
      await ctx.transaction(() => Promise.resolve());
      throw error;
    }),
  ];
  for (const codec of [undefined, codecOf(['a'], { errors: true })]) {
    const own = codec === undefined ? {} : { codec };
    const enqueuing = createProducer({ connectionString: database.url, notify: false, ...own });
    await enqueuing.enqueueMany(ways.map(({ task }) => task.job({})));
    await enqueuing.close();
    const { jobs } = await drain({ database, tasks: ways, ...own });
    expect(jobs.map(({ task }) => task)).toEqual(ways.map(({ task }) => task.name));
    for (const job of jobs) expect(job.error).toBe(error);
    await database.clear();
  }
});

test("a test's fake timers do not hold it up", async () => {
  vi.useFakeTimers();
  for (const n of [1, 2]) await producer.enqueue(greet, { n });
  expect((await drain({ database, tasks: [double] })).counts).toMatchObject({ done: 2 });
});

test('the result of a job is awaited beside a drain, and after it', async () => {
  const counted = defineTask({ name: 'count', payload: z.object({}), result: z.object({ words: z.int() }) });
  const enqueued = await producer.enqueue(counted, {});
  const waited = producer.result(enqueued);
  const { jobs } = await drain({ database, tasks: [implement(counted, () => ({ words: 7 }))] });
  expect(jobs[0]?.result).toEqual({ words: 7 });
  expect([await waited, await producer.result(enqueued)]).toEqual([{ words: 7 }, { words: 7 }]);
});

test.each(['of fanOut', 'thrown', 'of a transaction', 'of settleIn', 'late'] as const)(
  'has the result that is stored: %s',
  async (way) => {
    const counted = defineTask({ name: 'count', payload: z.object({}), result: z.object({ n: z.int() }) });
    const handler = implement(counted, async (_, ctx): Promise<never> => {
      const result = { n: 7 };
      const more = fanOut([greet.job({ n: 1 })], result);
      if (way === 'of fanOut') return more as never;
      // oxlint-disable-next-line typescript/only-throw-error -- an outcome may be thrown
      if (way === 'thrown') throw more;
      if (way === 'of settleIn')
        await ctx.settleIn(async (settle) => {
          await client.query('begin');
          await settle(client, result);
          await client.query('commit');
        });
      else await ctx.transaction(() => Promise.resolve(result));
      if (way === 'late') throw new Error('too late');
      return { n: 8 } as never;
    });
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    try {
      const { id } = await producer.enqueue(counted, {});
      const { jobs } = await drain({ database, tasks: [handler, double] });
      const stored = (await operator.jobs.get(id))?.result;
      expect([jobs.find((job) => job.id === id)?.result, stored]).toEqual([{ n: 7 }, { n: 7 }]);
      expect(await runHandler(handler, {}, { database })).toMatchObject({
        outcome: 'done',
        result: { n: 7 },
      });
    } finally {
      await client.end();
    }
  },
);

test('gives the very error of a handler; the retry waits for its backoff', async () => {
  const mine = new Error('not today');
  await producer.enqueue(greet, { n: 1 }, { retry: { backoff: 'fixed', base: '5m', max: '5m' } });
  const failing = implement(greet, () => {
    throw mine;
  });
  const { jobs, left } = await drain({ database, tasks: [failing] });
  expect(jobs).toMatchObject([{ outcome: 'retry' }]);
  expect(jobs[0]?.error).toBe(mine);
  expect(left).toMatchObject({ delayed: 1 });
  expect(left.nextInMs).toBeGreaterThan(200_000);
});

test('with retries, a job fails until it is dead', async () => {
  await producer.enqueue(greet, { n: 1 });
  await producer.enqueue(greet, { n: 2 }, { delay: '1h' });
  const failing = implement(greet, () => Promise.reject(new Error('never')));
  const { counts, left } = await drain({ database, tasks: [failing], retries: true });
  expect(counts).toMatchObject({ retry: 2, dead: 1 });
  expect(left).toMatchObject({ delayed: 1 });
});

test('with delayed jobs, they run at once, and so do snoozed ones', async () => {
  let snoozes = 2;
  const sleepy = implement(greet, () => (snoozes-- > 0 ? snooze('1d') : 'awake'));
  await producer.enqueue(greet, { n: 1 }, { delay: '30d' });
  const { counts, left } = await drain({ database, tasks: [sleepy], delayed: true });
  expect(counts).toMatchObject({ snooze: 2, done: 1 });
  expect(left.delayed).toBe(0);
});

test('one step runs one job, the next goes on from there', async () => {
  for (const n of [1, 2, 3]) await producer.enqueue(greet, { n });
  const first = await drain({ database, tasks: [double], maxJobs: 1 });
  expect(first.jobs.map(({ result }) => result)).toEqual([2]);
  expect(first.left.pending + first.left.ready).toBe(2);
  const rest = await drain({ database, tasks: [double] });
  expect(rest.jobs.map(({ result }) => result)).toEqual([4, 6]);
});

test('a job that enqueues itself without end is an error, as is a handler that does not return', async () => {
  const again = implement(greet, async ({ n }) => {
    await producer.enqueue(greet, { n: n + 1 });
  });
  await producer.enqueue(greet, { n: 1 });
  const { counts } = await drain({ database, tasks: [again], maxJobs: 20, timeoutMs: 20_000 });
  expect(counts.done).toBe(20);
  const hangs = implement(greet, (_payload, { signal }) => {
    const aborted = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => aborted.reject(signal.reason));
    return aborted.promise;
  });
  await expect(drain({ database, tasks: [hangs], timeoutMs: 3_000 })).rejects.toThrow(
    /did not come to an end within 3000 ms, .* still running: greet \(job /,
  );
  const [left] = (await operator.jobs.list({})).items;
  expect(left).toMatchObject({ status: 'ready', tries: 0, crashes: 0 });
});

test('a drain that runs out of time says which tasks ran last', async () => {
  const again = implement(greet, async ({ n }) => void (await producer.enqueue(greet, { n: n + 1 })));
  await producer.enqueue(greet, { n: 1 });
  await expect(drain({ database, tasks: [again], timeoutMs: 3_000 })).rejects.toThrow(
    /within (3000 ms, when [1-9]\d*|1000) attempts.*, the last of greet: (still running: greet|a job may enqueue itself|a job that enqueues)/,
  );
});

test('a handler that ignores its signal hardly delays the error of its drain', async () => {
  let abortedAt = 0;
  const deaf = implement(greet, (_payload, { signal }) => {
    signal.addEventListener('abort', () => (abortedAt = performance.now()));
    return new Promise(() => {});
  });
  await producer.enqueue(greet, { n: 1 });
  await expect(drain({ database, tasks: [deaf], timeoutMs: 3_000 })).rejects.toThrow('still running: greet');
  expect(abortedAt).toBeGreaterThan(0);
  expect(performance.now() - abortedAt).toBeLessThan(900); // a worker, which waits longer, would take a second
  const [left] = (await operator.jobs.list({})).items;
  expect(left).toMatchObject({ status: 'ready', tries: 0, crashes: 0 });
});

test('a payload that does not fit is told, with what is wrong', async () => {
  await producer.enqueueByName('greet', { n: 'one' });
  const { jobs } = await drain({ database, tasks: [double] });
  expect(jobs).toMatchObject([{ outcome: 'dead', error: { message: expect.stringContaining('n: ') } }]);
});

test('what the handler gives up is dead at once', async () => {
  await producer.enqueue(greet, { n: 1 });
  const { jobs } = await drain({ database, tasks: [implement(greet, () => giveUp(new Error('gone')))] });
  expect(jobs).toMatchObject([{ outcome: 'dead', error: { message: 'gone' } }]);
});

test('jobs of tasks that it was not given wait, and it says why', async () => {
  const other = defineTask({ name: 'other', payload: z.object({}) });
  await producer.enqueue(other, {});
  const { jobs, left } = await drain({ database, tasks: [double] });
  expect(jobs).toEqual([]);
  expect(left.pending).toBe(1);
  expect(JSON.stringify(left.held)).not.toBe('{}');
});

test('sees no job of a transaction that is open, and none of one that was rolled back', async () => {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query('begin');
  await producer.with(client).enqueue(greet, { n: 1 });
  expect((await drain({ database, tasks: [double] })).jobs).toEqual([]);
  await client.query('rollback');
  await client.end();
  expect((await drain({ database, tasks: [double] })).jobs).toEqual([]);
  expect(await database.query('select 1 from pgqueue.queue', [])).toEqual([]);
});

test('says that another scheduler leads, and leaves nothing of its own behind', async () => {
  const scheduler = createScheduler({ connectionString: database.url, name: 'other' });
  await scheduler.start();
  await until('it leads', () => scheduler.leads);
  try {
    await expect(drain({ database, tasks: [double] })).rejects.toThrow('another scheduler leads');
  } finally {
    await scheduler.stop();
  }
  expect((await drain({ database, tasks: [double] })).jobs).toEqual([]);
  expect(await database.query("select 1 from pgqueue.node where state in ('alive', 'draining')", [])).toEqual(
    [],
  );
});

test('one drain at a time leads', async () => {
  const [begun, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const waiting = implement(greet, () => {
    begun.resolve();
    return mayEnd.promise;
  });
  await producer.enqueue(greet, { n: 1 });
  const first = drain({ database, tasks: [waiting], timeoutMs: 20_000 });
  await begun.promise;
  await expect(drain({ database, tasks: [double] })).rejects.toThrow(/another scheduler leads .*\(drain /);
  mayEnd.resolve();
  expect((await first).counts.done).toBe(1);
});

test('a database that can not be reached is told', async () => {
  const away = { url: 'postgres://postgres@127.0.0.1:1/away' };
  await expect(drain({ database: away, tasks: [double], timeoutMs: 3_000 })).rejects.toThrow(
    /within 3000 ms, .* no handler runs, so the database failed: .*ECONNREFUSED.* More time: timeoutMs/,
  );
});

test('a policy that fetches does so; where that fails, its gate sees nothing', async () => {
  const fetching = (fetch: () => Promise<number>): Policy => {
    const gates = [
      gate<number>({
        name: 'credit',
        prepare: { everyMs: 60_000, deadlineMs: 10_000, fetch },
        admits: (_job, _snapshot, fetched) => (fetched === null ? 'nothing is known' : true),
      }),
    ];
    return policy({ gates, order: fifo() });
  };
  const away = fetching(() => Promise.reject(new Error('billing is away')));
  await producer.enqueue(greet, { n: 1 });
  const { left } = await drain({ database, tasks: [double], policy: away });
  expect(left.held).toEqual({ default: { credit: 1 } });
  const here = fetching(() => Promise.resolve(1));
  const { counts } = await drain({ database, tasks: [double], policy: here });
  expect(counts.done).toBe(1);
});

test('how long it may take can be said by the environment', async () => {
  vi.stubEnv('PGQUEUE_TEST_TIMEOUT_MS', 'long');
  await expect(drain({ database, tasks: [double] })).rejects.toThrow(
    /PGQUEUE_TEST_TIMEOUT_MS must be a number/,
  );
  vi.stubEnv('PGQUEUE_TEST_TIMEOUT_MS', '1');
  await expect(drain({ database, tasks: [double] })).rejects.toThrow(
    /within 1 ms, .* the database that took so long/,
  );
  vi.stubEnv('PGQUEUE_TEST_TIMEOUT_MS', '25000');
});

test('wrong options are told at once, before any statement', async () => {
  const wrong = { database: { url: '' }, tasks: [greet], retrys: true, maxJobs: 0 };
  await expect(drain(wrong as never)).rejects.toThrow(
    /database\.url must be.*tasks\[0\] must be made by implement.*retries.*|retrys/s,
  );
});
