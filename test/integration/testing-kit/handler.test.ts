import { defineTask, implement, snooze } from '@pgqueue/core';
import { fromKysely } from '@pgqueue/producer/kysely';
import { createSchedulerSteps } from '@pgqueue/scheduler/internal/steps';
import { runHandler } from '@pgqueue/testing';
import { Kysely, PostgresDialect } from 'kysely';
import type { Generated } from 'kysely';
import pg from 'pg';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const pay = defineTask({ name: 'pay', payload: z.object({ cents: z.number() }), retry: { maxTries: 2 } });

interface Tables {
  readonly paid: { readonly id: Generated<number>; readonly cents: number };
}

const { test: database, operator } = useDatabase();

beforeAll(() => database.query('create table paid (id serial primary key, cents integer not null)', []));
beforeEach(async () => {
  await database.clear();
  await database.query('truncate paid', []);
});

const paid = async (): Promise<readonly number[]> =>
  (await database.query<{ cents: number }>('select cents from paid order by id', [])).map(
    ({ cents }) => cents,
  );
const statuses = async (): Promise<readonly string[]> =>
  (await operator.jobs.list({})).items.map(({ status }) => status);

test('what ctx.transaction writes and the settlement commit together', async () => {
  const handler = implement(pay, ({ cents }, ctx) =>
    ctx.transaction((client) => client.query('insert into paid (cents) values ($1)', [cents])),
  );
  expect(await runHandler(handler, { cents: 5 }, { database })).toMatchObject({ outcome: 'done' });
  expect(await paid()).toEqual([5]);
  expect(await statuses()).toEqual(['done']);
});

test('a transaction that fails leaves nothing of what it wrote', async () => {
  const handler = implement(pay, ({ cents }, ctx) =>
    ctx.transaction(async (client) => {
      await client.query('insert into paid (cents) values ($1)', [cents]);
      throw new Error('declined');
    }),
  );
  const first = await runHandler(handler, { cents: 5 }, { database });
  expect(first).toMatchObject({ outcome: 'retry', error: { message: 'declined' } });
  expect(first.delayMs).toBeGreaterThan(500);
  const last = await runHandler(handler, { cents: 5 }, { database, tries: 1 });
  expect(last.outcome).toBe('dead');
  expect(await paid()).toEqual([]);
  expect((await statuses()).toSorted()).toEqual(['dead', 'delayed']);
});

test("ctx.settleIn settles in a transaction of the handler's library", async () => {
  const pool = new pg.Pool({ connectionString: database.url });
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  const handler = implement(pay, ({ cents }, ctx) =>
    ctx.settleIn((settle) =>
      db.transaction().execute(async (trx) => {
        await trx.insertInto('paid').values({ cents }).execute();
        await settle(fromKysely(trx));
      }),
    ),
  );
  expect(await runHandler(handler, { cents: 7 }, { database })).toMatchObject({ outcome: 'done' });
  await db.destroy();
  expect(await paid()).toEqual([7]);
  expect(await statuses()).toEqual(['done']);
});

test('what an earlier attempt kept is there, and what this one keeps, in the database', async () => {
  const handler = implement(pay, async (_payload, ctx) => {
    await ctx.progress({ half: true });
    await ctx.checkpoint({ after: ctx.job.checkpoint });
    await ctx.extend('20m');
    return snooze('1h');
  });
  const ran = await runHandler(
    handler,
    { cents: 1 },
    { database, checkpoint: { page: 4 }, job: { key: 'acme' } },
  );
  expect(ran).toMatchObject({ outcome: 'snooze', delayMs: 3_600_000, progress: [{ half: true }] });
  const [job] = (await operator.jobs.list({})).items;
  expect(await operator.jobs.get(job?.id ?? '')).toMatchObject({
    status: 'delayed',
    key: 'acme',
    checkpoint: { after: { page: 4 } },
  });
});

test('limits and other jobs are not in its way, and it leaves no node and no leader', async () => {
  await operator.queues.pause('default');
  const handler = implement(pay, () => 'ran');
  await runHandler(handler, { cents: 1 }, { database, job: { delay: '1h' } });
  expect(await statuses()).toEqual(['done']);
  expect(await database.query("select 1 from pgqueue.node where state in ('alive', 'draining')", [])).toEqual(
    [],
  );
  expect(await database.query('select 1 from pgqueue.scheduler_lease where leader is not null', [])).toEqual(
    [],
  );
});

test('several at a time, and each has its own; where a scheduler leads it says so', async () => {
  const handler = implement(pay, ({ cents }) => cents);
  const runs = await Promise.all([1, 2, 3].map((cents) => runHandler(handler, { cents }, { database })));
  expect(runs.map(({ result }) => result)).toEqual([1, 2, 3]);
  const scheduler = createSchedulerSteps({ connectionString: database.url, name: 'mine' });
  await scheduler.begin();
  try {
    await expect(runHandler(handler, { cents: 1 }, { database })).rejects.toThrow(
      /another scheduler leads .*\(mine/,
    );
  } finally {
    await scheduler.end();
  }
});

test('a scheduler by hand that is ended while it begins neither leads nor goes on', async () => {
  const locker = new pg.Client({ connectionString: database.url });
  await locker.connect();
  try {
    await locker.query('begin');
    await locker.query('lock table pgqueue.scheduler_lease');
    const scheduler = createSchedulerSteps({ connectionString: database.url, name: 'ended' });
    const begun = scheduler.begin().catch(() => {});
    await until('it to wait', async () => {
      const waiting = await database.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        [],
      );
      return waiting.length > 0;
    });
    const ended = scheduler.end();
    await locker.query('commit');
    await Promise.all([begun, ended]);
  } finally {
    await locker.end();
  }
  expect(await database.query('select 1 from pgqueue.scheduler_lease where leader is not null', [])).toEqual(
    [],
  );
});
