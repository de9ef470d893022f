import { defineTask, implement, logObserver, retryAfter } from '@pgqueue/core';
import type { JobContext } from '@pgqueue/core';
import { resetNode } from '@pgqueue/postgres/internal';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openWorkerBench, seldom, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
beforeAll(() => bench.sql('create table effect (job uuid, note text)'));
beforeEach(() => bench.sql('truncate effect'));
afterEach(() => bench.clear());

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });

async function one(handler: (context: JobContext) => unknown, options: object = {}) {
  const worker = await bench.worker([implement(task, (_payload, ctx) => handler(ctx))], options);
  const { id } = await bench.producer.enqueue(task, {}, { retry: { base: '1m' } });
  await bench.dispatch();
  return { worker, id };
}

const write = ({ job, transaction }: JobContext, note = 'written'): Promise<unknown> =>
  transaction((client) => client.query('insert into effect values ($1, $2)', [job.id, note]));
const effects = () => bench.sql('select job, note from effect');
const ended = (id: string, status: string): Promise<unknown> =>
  until(`job to be ${status}`, async () => (await bench.job(id)).status === status);

test('commits the writes and done together; nothing is settled twice', async () => {
  const { worker, id } = await one(async (ctx) => {
    await write(ctx);
    throw new Error('after the end');
  });
  await ended(id, 'done');
  await until('the slot to be free', () => worker.running === 0);
  expect(await effects()).toEqual([{ job: id, note: 'written' }]);
  expect(await bench.job(id)).toMatchObject({ tries: 0, result: null });
  await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
  expect(worker.of('job.stale')).toEqual([]);
});

test.each<[string, (ctx: JobContext) => unknown, string]>([
  ['an error', () => Promise.reject(new Error('after the end')), 'after the end'],
  ['an error that is returned', () => new Error('returned'), 'returned'],
  ['an outcome', () => retryAfter('1m', 'again'), 'its handler asked for retry when its job was done'],
  ['a second transaction', (ctx) => write(ctx, 'lost'), 'put all writes into that transaction'],
  ['a second one, by settleIn', (ctx) => ctx.settleIn(() => Promise.resolve()), 'a job is settled once'],
])('what comes after the commit changes nothing, and is told: %s', async (_what, then, message) => {
  const lines: unknown[] = [];
  const quiet = (): void => {};
  const error = (data: object, event: string): void => void lines.push([event, data]);
  const log = logObserver({ debug: quiet, info: quiet, warn: quiet, error });
  const { worker, id } = await one(async (ctx) => {
    await write(ctx);
    return then(ctx);
  });
  await expect.poll(() => worker.of('job.late_error')).toHaveLength(1);
  const told = worker.of('job.late_error');
  expect(told).toMatchObject([
    { job: id, queue: 'default', task: 'task', error: { message: expect.stringContaining(message) } },
  ]);
  for (const event of told) log(event);
  expect(lines).toMatchObject([['job.late_error', { job: id }]]);
  expect(await bench.job(id)).toMatchObject({ status: 'done', tries: 0 });
  expect(await effects()).toEqual([{ job: id, note: 'written' }]);
  expect(worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
});

test('without an observer, the first error after the commit of each task is a process warning', async () => {
  const warnings: (Error & { readonly code?: string })[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on('warning', note);
  try {
    const late = async (ctx: JobContext): Promise<never> => {
      await write(ctx);
      throw new Error('after the end', { cause: new Error('why') });
    };
    const { worker, id } = await one(late, { observe: undefined });
    await until('the warning', () => warnings.length > 0);
    const again = await bench.producer.enqueue(task, {});
    await bench.dispatch();
    await ended(again.id, 'done');
    await until('the slot to be free', () => worker.running === 0);
    expect(warnings.map(({ name, code }) => [name, code])).toEqual([
      ['PgQueueWarning', 'PGQUEUE_LATE_ERROR'],
    ]);
    expect(warnings[0]?.message).toContain(
      `job ${id} of task "task" had ended when its handler failed, and is not tried again: after the end: why`,
    );
  } finally {
    process.off('warning', note);
  }
});

test.each([
  'commit',
  '  -- why\n /* not */ END',
  'rollback',
  'ROLLBACK AND CHAIN',
  'begin',
  'start  transaction',
  "prepare transaction 'p'",
  'abort',
])('a transaction that is to be ended from within is refused, and nothing is lost: %j', async (text) => {
  const heard: unknown[] = [];
  const { id } = await one(async (ctx) => {
    const ending = ctx.transaction(async (client) => {
      await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'undone']);
      await client.query(text);
    });
    await ending.catch((error: unknown) => heard.push((error as Error).message));
    await ctx.transaction(async (client) => {
      await client.query('savepoint here');
      await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'undone']);
      await client.query('rollback to savepoint here');
      await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'kept']);
    });
  });
  await ended(id, 'done');
  expect(heard).toEqual([expect.stringContaining('ctx.transaction begins and ends its transaction itself')]);
  expect(await effects()).toEqual([{ job: id, note: 'kept' }]);
});

test('one that was ended from within after all is an error, and settles nothing', async () => {
  const { id } = await one((ctx) => ctx.transaction((client) => client.query('select 1; commit')));
  await ended(id, 'delayed');
  expect((await bench.job(id)).lastError?.message).toContain('its work has ended it');
});

test('what throws rolls back, and leaves the work item as it was: the handler may go on', async () => {
  const { id } = await one(async (ctx) => {
    const failed = ctx.transaction(async (client) => {
      await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'undone']);
      throw new Error('no');
    });
    await expect(failed).rejects.toThrow('no');
    const broken = ctx.transaction((client) => client.query('select 1/0').catch(() => null));
    await expect(broken).rejects.toMatchObject({ code: '25P02' });
    await write(ctx, 'second try');
    await expect(write(ctx)).rejects.toThrow('once');
  });
  await ended(id, 'done');
  expect(await effects()).toEqual([{ job: id, note: 'second try' }]);
});

test('an error that the handler passes on is a retry, with nothing written', async () => {
  const { id } = await one((ctx) =>
    ctx.transaction(async (client) => {
      await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'undone']);
      throw new Error('no');
    }),
  );
  await ended(id, 'delayed');
  expect(await effects()).toEqual([]);
  expect(await bench.job(id)).toMatchObject({ tries: 1, lastError: { message: 'no' } });
});

test('a lost lease rolls back: the other holder writes alone', async () => {
  const lost = Promise.withResolvers<void>();
  let runs = 0;
  const heard: unknown[] = [];
  const { worker, id } = await one(
    async (ctx) => {
      runs += 1;
      if (runs > 1) return write(ctx, 'second');
      await lost.promise;
      await write(ctx, 'first').catch((error: unknown) => heard.push((error as { code: unknown }).code));
      return heard.push((ctx.signal.reason as { readonly code: unknown }).code);
    },
    { heartbeatMs: 1_000 },
  );
  await until('the first run', () => runs === 1);
  await resetNode(bench.database, worker.node);
  lost.resolve();
  await ended(id, 'done');
  await until('both answers', () => heard.length === 2);
  expect(heard).toEqual(['lease_lost', 'lease_lost']);
  expect(await effects()).toEqual([{ job: id, note: 'second' }]);
});

test('a lease that was lost unheard of is found by the settlement in the transaction: rolled back', async () => {
  const lost = Promise.withResolvers<void>();
  let heard: unknown;
  const { worker, id } = await one(async (ctx) => {
    await lost.promise;
    await write(ctx).catch((error: unknown) => (heard = (error as { code: unknown }).code));
  }, seldom);
  await Promise.all([until('the job to run', () => worker.running === 1), bench.beaten()]);
  await bench.sql(`update pgqueue.work_queue set lock_key = 'thief', lock_token = gen_random_uuid()`);
  lost.resolve();
  await until('the answer', () => heard !== undefined);
  expect(heard).toBe('lease_lost');
  expect(await effects()).toEqual([]);
  expect(await bench.job(id)).toMatchObject({ status: 'running', node: 'thief' });
  await expect.poll(() => worker.of('job.stale')).toMatchObject([{ job: id, during: 'settle' }]);
});

test('a connection that breaks within the transaction leaves nothing, and the attempt goes on', async () => {
  const { id } = await one(async (ctx) => {
    const broken = ctx.transaction(async (client) => {
      await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'lost']);
      const { rows } = await client.query('select pg_backend_pid() as pid');
      await bench.sql('select pg_terminate_backend($1)', [(rows[0] as { pid: number }).pid]);
      await client.query('select 1');
    });
    await expect(broken).rejects.toThrow(/terminat|not queryable/i);
    await write(ctx, 'kept');
  });
  await ended(id, 'done');
  expect(await effects()).toEqual([{ job: id, note: 'kept' }]);
});

test('a client that is kept beyond its transaction is refused', async () => {
  let refusal: unknown;
  const { id } = await one(async ({ transaction }) => {
    const kept = await transaction((client) => Promise.resolve(client));
    refusal = await kept.query('select 1').catch((error: unknown) => (error as Error).message);
  });
  await ended(id, 'done');
  await until('the refusal', () => refusal !== undefined);
  expect(refusal).toContain('has ended');
});

test('handlers that hold every connection of theirs stop neither heartbeats nor settles', async () => {
  const release = Promise.withResolvers<void>();
  let holding = 0;
  const quick = defineTask({ name: 'quick', payload: z.object({}) });
  const hold = implement(task, (_payload, { transaction }) =>
    transaction(async (client) => {
      await client.query('select 1');
      holding += 1;
      await release.promise;
    }),
  );
  await bench.worker([hold, implement(quick, () => null)], { connectionsMax: 2, concurrency: 4 });
  await bench.producer.enqueueMany([task.job({}), task.job({})]);
  await bench.dispatch();
  await until('both to hold a connection', () => holding === 2);
  const { id } = await bench.producer.enqueue(quick, {});
  await bench.dispatch();
  await ended(id, 'done');
  release.resolve();
  await until('all to be done', async () => (await bench.sql('select 1 from pgqueue.queue')).length === 0);
  expect(await bench.sql('select from pgqueue.history')).toHaveLength(3);
});

test('a connection to a server that only reads by now is not used again', async () => {
  const pids: unknown[] = [];
  const { id } = await one(async (ctx) => {
    const readOnly = ctx.transaction(async (client) => {
      await client.query('set transaction read only');
      const { rows } = await client.query('select pg_backend_pid() as pid');
      pids.push(rows[0]?.['pid']);
      await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'refused']);
    });
    await expect(readOnly).rejects.toMatchObject({ code: '25006' });
    await ctx.transaction(async (client) => {
      const { rows } = await client.query('select pg_backend_pid() as pid');
      pids.push(rows[0]?.['pid']);
      await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'elsewhere']);
    });
  });
  await ended(id, 'done');
  expect(await effects()).toEqual([{ job: id, note: 'elsewhere' }]);
  expect(new Set(pids).size).toBe(2);
});
