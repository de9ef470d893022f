import { defineTask, implement, implementBatch } from '@pgqueue/core';
import type { JobContext, TransactionClient } from '@pgqueue/core';
import pg from 'pg';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';
import { dispatchBundles } from '../sql/bundles-support.ts';

const bench = opened(openWorkerBench);
beforeAll(() => bench.sql('create table effect (job uuid, note text)'));
beforeEach(() => bench.sql('truncate effect'));
afterEach(async () => {
  await bench.clear();
  await bench.sql(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity'`);
});

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h', retry: { base: '1m' } });

async function one(handler: (context: JobContext) => unknown) {
  const worker = await bench.worker([implement(task, (_payload, ctx) => handler(ctx))]);
  const { id } = await bench.producer.enqueue(task, {});
  await bench.dispatch();
  return { worker, id };
}

/** Errors of transactions that no handler awaited. They are caught: here nobody may leave a rejection unhandled. */
let caught: unknown[];
beforeEach(() => {
  caught = [];
});
const leave = (transaction: Promise<unknown>): void =>
  void transaction.catch((error: unknown) => caught.push(error));

const write = (client: TransactionClient, id: string): Promise<unknown> =>
  client.query('insert into effect values ($1)', [id]);
const effects = () => bench.sql('select job from effect');
const ended = (id: string, status: string): Promise<unknown> =>
  until(`job to be ${status}`, async () => (await bench.job(id)).status === status);
/** Resolves when no transaction of a handler is open any more. */
const quiet = (): Promise<unknown> =>
  until('the transaction to end', async () => {
    const [row] = await bench.sql(
      `select count(*)::integer as open from pg_stat_activity where datname = current_database() and state like 'idle in%'`,
    );
    return row?.['open'] === 0;
  });

test('a transaction that the handler does not await fails the attempt, and leaves nothing', async () => {
  const returned = Promise.withResolvers<void>();
  const { worker, id } = await one((ctx) => {
    if (ctx.job.tries > 0) return ctx.transaction((client) => write(client, ctx.job.id));
    leave(
      ctx.transaction(async (client) => {
        await write(client, ctx.job.id);
        await returned.promise;
      }),
    );
    return 'done';
  });
  await ended(id, 'delayed');
  const message = expect.stringContaining('ctx.transaction was not awaited');
  expect(await bench.job(id)).toMatchObject({ tries: 1, errors: [{ message }] });
  returned.resolve();
  await quiet();
  expect(await effects()).toEqual([]);
  await expect.poll(() => worker.of('job.settled')).toMatchObject([{ verdict: 'retry', error: { message } }]);
  await expect.poll(() => caught).toMatchObject([{ message }]);
  await bench.sql('update pgqueue.queue set run_after = null');
  await bench.dispatch();
  await ended(id, 'done');
  expect(await effects()).toEqual([{ job: id }]);
});

test('so does one of the handler’s own library', async () => {
  const returned = Promise.withResolvers<void>();
  const client = new pg.Client({ connectionString: bench.test.url });
  await client.connect();
  const { id } = await one((ctx) => {
    leave(
      ctx.settleIn(async (settle) => {
        await client.query('begin');
        try {
          await write(client, ctx.job.id);
          await returned.promise;
          await settle(client);
          await client.query('commit');
        } catch (error) {
          await client.query('rollback');
          throw error;
        }
      }),
    );
  });
  await ended(id, 'delayed');
  const message = expect.stringContaining('ctx.settleIn was not awaited');
  expect(await bench.job(id)).toMatchObject({ tries: 1, errors: [{ message }] });
  returned.resolve();
  await expect.poll(() => caught).toMatchObject([{ message }]);
  await client.end();
  expect(await effects()).toEqual([]);
});

test('a handler that throws, or asks for an outcome, beside its transaction ends as it says', async () => {
  const { id } = await one((ctx) => {
    leave(ctx.transaction(() => new Promise(() => {})));
    throw new Error('its own');
  });
  await ended(id, 'delayed');
  expect(await bench.job(id)).toMatchObject({ errors: [{ message: 'its own' }] });
});

test('one whose COMMIT is under way is waited for: the job is done, and the error is told', async () => {
  await bench.sql(
    `create function slow() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(7); return null; end $$`,
  );
  await bench.sql(
    'create constraint trigger slow after insert on effect deferrable initially deferred for each row execute function slow()',
  );
  const lock = new pg.Client({ connectionString: bench.test.url });
  await lock.connect();
  await lock.query('select pg_advisory_lock(7)');
  const commits = `select from pg_stat_activity where datname = current_database() and query = 'commit' and state = 'active'`;
  const { worker, id } = await one(async (ctx) => {
    leave(ctx.transaction((client) => write(client, ctx.job.id)));
    await until('the commit', async () => (await bench.sql(commits)).length === 1);
    setImmediate(() => void lock.end());
  });
  await ended(id, 'done');
  await expect
    .poll(() => worker.of('job.late_error'))
    .toMatchObject([{ error: { message: expect.stringContaining('ctx.transaction was not awaited') } }]);
  await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
  expect(worker.of('job.stale')).toEqual([]);
  expect(await effects()).toEqual([{ job: id }]);
  await bench.sql('drop trigger slow on effect');
});

test('of a bundle only the jobs fail whose transaction was not awaited', async () => {
  const returned = Promise.withResolvers<void>();
  await bench.worker([
    implementBatch(task, (jobs, ctx) => {
      leave(ctx.transaction(() => returned.promise, { jobs: jobs.slice(1) }));
    }),
  ]);
  const ids = (await bench.producer.enqueueMany([1, 2, 3].map(() => task.job({})))).map(({ id }) => id);
  await dispatchBundles(bench.database, [ids]);
  await ended(ids[0] ?? '', 'done');
  for (const id of ids.slice(1)) {
    await ended(id, 'delayed');
    const message = expect.stringContaining('ctx.transaction was not awaited');
    expect(await bench.job(id)).toMatchObject({ errors: [{ message }] });
  }
  returned.resolve();
  await quiet();
  await expect.poll(() => caught).toHaveLength(1);
});
