import { defineTask, implement, implementBatch } from '@pgqueue/core';
import type { BatchContext, BatchJob, JobContext, Settle } from '@pgqueue/core';
import pg from 'pg';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';
import { dispatchBundles } from '../sql/bundles-support.ts';

const bench = opened(openWorkerBench);
const proxy = opened(() => startCutProxy(bench.test.url), { each: true });
/** A handler's own connections, which lose replies where a test says so. */
let own: pg.Pool;
beforeAll(() => bench.sql('create table effect (job uuid, note text)'));
beforeEach(async () => {
  await bench.sql('truncate effect');
  own = new pg.Pool({ connectionString: proxy.url });
  own.on('error', () => {});
});
afterEach(async () => {
  await bench.clear();
  await own.end();
});

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });

async function inOwn(work: (client: pg.PoolClient) => Promise<unknown>, begin = 'begin'): Promise<void> {
  const client = await own.connect();
  client.on('error', () => {});
  let broken = false;
  try {
    await client.query(begin);
    await work(client);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => (broken = true));
    throw error;
  } finally {
    client.release(broken);
  }
}

const write = (client: pg.PoolClient, { job }: Pick<JobContext, 'job'>, note: string): Promise<unknown> =>
  client.query('insert into effect values ($1, $2)', [job.id, note]);

async function one(handler: (context: JobContext) => unknown) {
  const worker = await bench.worker([implement(task, (_payload, ctx) => handler(ctx))]);
  const { id } = await bench.producer.enqueue(task, {}, { retry: { base: '1m' } });
  await bench.dispatch();
  return { worker, id };
}

const effects = () => bench.sql('select job, note from effect order by note');
const ended = (id: string, status: string): Promise<unknown> =>
  until(`job to be ${status}`, async () => (await bench.job(id)).status === status);

test('a COMMIT whose reply is lost is looked up, and happened once', async () => {
  let told: unknown = 'nothing';
  const { worker, id } = await one(async (ctx) => {
    told = await ctx
      .settleIn((settle) =>
        inOwn(async (client) => {
          await write(client, ctx, 'once');
          await settle(client);
          proxy.cutReplyOf('commit');
        }),
      )
      .catch((error: unknown) => error);
  });
  await ended(id, 'done');
  await until('the event', () => worker.of('job.settled').length > 0);
  expect(proxy.cuts()).toBe(1);
  expect(told).toBeUndefined();
  expect(await effects()).toEqual([{ job: id, note: 'once' }]);
  await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
  expect(worker.of('job.stale')).toEqual([]);
});

test('a connection that breaks before the COMMIT leaves nothing, and the attempt goes on', async () => {
  let failure: unknown;
  const { id } = await one(async (ctx) => {
    const broken = ctx.settleIn((settle) =>
      inOwn(async (client) => {
        await write(client, ctx, 'lost');
        await settle(client);
        const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
        await bench.sql('select pg_terminate_backend($1)', [rows[0]?.pid]);
        await client.query('select 1');
      }),
    );
    failure = await broken.catch((error: unknown) => error);
    await ctx.settleIn((settle) =>
      inOwn(async (client) => {
        await write(client, ctx, 'kept');
        await settle(client);
      }),
    );
  });
  await ended(id, 'done');
  expect(failure).toBeInstanceOf(Error);
  expect(await effects()).toEqual([{ job: id, note: 'kept' }]);
});

test('a second settle in the same transaction fails the attempt, which keeps its lease', async () => {
  const { worker, id } = await one((ctx) =>
    ctx.settleIn((settle) =>
      inOwn(async (client) => {
        await write(client, ctx, 'twice');
        await settle(client);
        await settle(client);
      }),
    ),
  );
  await ended(id, 'delayed');
  expect(await bench.job(id)).toMatchObject({ tries: 1, crashes: 0 });
  expect(worker.of('job.stale')).toEqual([]);
  expect(await effects()).toEqual([]);
});

test('a rollback that a wrapper swallows is found out', async () => {
  let failure: unknown;
  const { id } = await one(async (ctx) => {
    const swallowed = ctx.settleIn((settle) =>
      inOwn(async (client) => {
        await write(client, ctx, 'undone');
        await settle(client);
        throw new Error('swallowed');
      }).catch(() => 'all is well'),
    );
    failure = await swallowed.catch((error: unknown) => error);
    return 'by its return value';
  });
  await ended(id, 'done');
  expect(failure).toMatchObject({ message: 'the transaction that settled the job did not commit' });
  expect(await effects()).toEqual([]);
  expect(await bench.job(id)).toMatchObject({ result: 'by its return value' });
});

test('a rollback whose job dies of its last crash meanwhile is no commit', async () => {
  let told: unknown;
  const worker = await bench.worker([
    implement(task, async (_payload, ctx) => {
      const undone = ctx.settleIn((settle) =>
        inOwn(async (client) => {
          await write(client, ctx, 'undone');
          await settle(client);
          throw new Error('rolled back');
        }).catch(async (error: unknown) => {
          await bench.sql('select pgqueue.reset_node($1)', [worker.node]);
          throw error;
        }),
      );
      told = await undone.catch((error: unknown) => error);
    }),
  ]);
  const { id } = await bench.producer.enqueue(task, {}, { retry: { maxCrashes: 1 } });
  await bench.dispatch();
  await ended(id, 'dead');
  await until('the answer', () => worker.running === 0);
  expect(told).toMatchObject({ code: 'lease_lost' });
  expect(await effects()).toEqual([]);
  expect(worker.of('job.settled')).toEqual([]);
});

test('a transaction that begins again after a serialization failure settles anew', async () => {
  let runs = 0;
  const { id } = await one(async (ctx) => {
    const attempt = (settle: Settle): Promise<void> =>
      inOwn(async (client) => {
        runs += 1;
        await write(client, ctx, `run ${runs}`);
        await settle(client);
        if (runs === 1) throw Object.assign(new Error('could not serialize access'), { code: '40001' });
      }, 'begin isolation level serializable');
    await ctx.settleIn((settle) => attempt(settle).catch(() => attempt(settle)));
  });
  await ended(id, 'done');
  expect(await effects()).toEqual([{ job: id, note: 'run 2' }]);
});

test('without a call of settle the job is not settled, and told so; a settle that is kept is refused', async () => {
  const failures: unknown[] = [];
  const failure = (error: unknown): unknown => failures.push((error as Error).message);
  let kept: Settle | undefined;
  const { id } = await one(async (ctx) => {
    await ctx
      .settleIn((settle) => {
        kept = settle;
        return inOwn((client) => write(client, ctx, 'unsettled'));
      })
      .catch(failure);
    await inOwn(async (client) => kept?.(client)).catch(failure);
    throw new Error('so it is tried again');
  });
  await ended(id, 'delayed');
  expect(failures).toEqual([
    expect.stringContaining('settle was not called'),
    expect.stringContaining('has ended'),
  ]);
});

test('a settlement that nobody waits for counts if it was committed', async () => {
  let told: unknown = 'nothing';
  const { id } = await one(async (ctx) => {
    told = await ctx
      .settleIn((settle) =>
        inOwn(async (client) => {
          await write(client, ctx, 'in time');
          void settle(client); // its statement goes before the COMMIT, on the same connection
        }),
      )
      .catch((error: unknown) => error);
  });
  await ended(id, 'done');
  await until('the answer', () => told !== 'nothing');
  expect(told).toBeUndefined();
  expect(await effects()).toEqual([{ job: id, note: 'in time' }]);
});

test('a library that never says how its COMMIT ended is waited for until the lease ends', async () => {
  const brief = defineTask({ name: 'brief', payload: z.object({}), timeout: '2s' });
  const heard: unknown[] = [];
  const hang = (ctx: JobContext): Promise<void> =>
    ctx.settleIn((settle) =>
      inOwn(async (client) => {
        await write(client, ctx, 'committed');
        await settle(client);
      }).then(() => new Promise(() => {})),
    );
  const worker = await bench.worker([
    implement(brief, async (_payload, ctx) => heard.push(await hang(ctx).catch((error: unknown) => error))),
  ]);
  const { id } = await bench.producer.enqueue(brief, {});
  await bench.dispatch();
  await until('the answer', () => heard.length > 0);
  expect(heard).toEqual([undefined]);
  await until('the slot to be free', () => worker.running === 0);
  expect(await effects()).toEqual([{ job: id, note: 'committed' }]);
  await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
  expect(worker.of('job.timeout')).toEqual([]);
});

test('a queue that keeps no history loses nothing by it', async () => {
  await bench.sql(`insert into pgqueue.queue_config (queue, retention) values ('brief', interval '0')`);
  const worker = await bench.worker([
    implement(task, (_payload, ctx) =>
      ctx.settleIn((settle) =>
        inOwn(async (client) => {
          await write(client, ctx, 'brief');
          await settle(client);
        }),
      ),
    ),
  ]);
  const { id } = await bench.producer.enqueue(task, {}, { queue: 'brief' });
  await bench.dispatch();
  await until('the event', () => worker.of('job.settled').length > 0);
  await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
  expect(worker.of('job.stale')).toEqual([]);
  expect(await effects()).toEqual([{ job: id, note: 'brief' }]);
});

test('jobs of a bundle are settled together, those that are named or all', async () => {
  const settleSome = (jobs: readonly BatchJob[], { settleIn }: BatchContext, note: string) =>
    settleIn(
      (settle) =>
        inOwn(async (client) => {
          for (const job of jobs) await write(client, { job }, note);
          await settle(client);
        }),
      { jobs },
    );
  const handler = implementBatch(task, async (jobs, ctx) => {
    await settleSome(jobs.slice(0, 1), ctx, 'first');
    await settleSome(jobs.slice(1), ctx, 'rest');
  });
  const worker = await bench.worker([handler]);
  const enqueued = await bench.producer.enqueueMany([task.job({}), task.job({})]);
  const ids = enqueued.map(({ id }) => id);
  await bench.sql(`update pgqueue.scheduler_lease set expires = '-infinity'`); // of whom the other tests dispatch by
  await dispatchBundles(bench.database, [ids]);
  await Promise.all(ids.map((id) => ended(id, 'done')));
  expect((await effects()).map(({ note }) => note)).toEqual(['first', 'rest']);
  expect(worker.of('job.stale')).toEqual([]);
});
