// Settings that administrators make for a role or a whole database: a small system does all its work under
// each of them.
import { defineTask, flow, implement } from '@pgqueue/core';
import type { PgQueueEvent } from '@pgqueue/core';
import { createOperator, migrationStatus } from '@pgqueue/postgres';
import { maintainHistory, openDatabase, sqlState, trimHistory } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';
import { maintained } from '../sql/support.ts';

const own = useDatabase({ each: true });
let admin: pg.Client;
beforeEach(async () => {
  admin = new pg.Client({ connectionString: own.url });
  await admin.connect();
});
afterEach(() => admin.end());

const payload = z.object({ n: z.number() });
const quick = defineTask({ name: 'quick', payload, retry: { backoff: 'fixed', base: '10ms', maxTries: 2 } });
const nobody = defineTask({ name: 'nobody', payload });

/** Everything that a small application does, until all of it has ended. */
async function goThrough(url: string): Promise<readonly PgQueueEvent[]> {
  const events: PgQueueEvent[] = [];
  const observe = (event: PgQueueEvent): void => void events.push(event);
  const common = { connectionString: url, observe };
  const operator = createOperator({ connectionString: url });
  const database = openDatabase({ connectionString: url });
  const producer = createProducer(common);
  const scheduler = createScheduler({ ...common, leaseMs: 1_000 });
  const failed = new Set<string>();
  const worker = createWorker({
    ...common,
    heartbeatMs: 200,
    tasks: [
      implement(quick, async ({ n }, { job, transaction }) => {
        if (n === 1 && !failed.has(job.id)) {
          failed.add(job.id);
          throw new Error('once');
        }
        if (n === 2) throw new Error('always');
        if (n === 3) await transaction((client) => client.query('insert into written values ($1)', [job.id]));
      }),
    ],
  });
  const states = async (): Promise<Readonly<Record<string, number>>> =>
    Object.fromEntries(
      (
        await admin.query<{ state: string; count: number }>(
          `select status as state, count(*)::integer as count from pgqueue.job group by 1`,
        )
      ).rows.map(({ state, count }) => [state, count]),
    );
  try {
    await Promise.all([scheduler.start(), worker.start()]);
    await operator.schedules.set({
      name: 'each second',
      cron: '* * * * * *',
      task: 'quick',
      payload: { n: 0 },
    });
    // one at a time, in a batch, and by COPY
    await producer.enqueue(quick, { n: 0 });
    await producer.enqueueMany(Array.from({ length: 20 }, (_, n) => quick.job({ n: n % 4 })));
    await producer.enqueueMany(
      Array.from({ length: 2_000 }, () => nobody.job({ n: 0 }, { queue: 'copied', delay: '1h' })),
    );
    const unique = (onConflict: 'replace' | 'debounce' | 'supersede') =>
      producer.enqueue(nobody, { n: 0 }, { delay: '1h', uniqueKey: { key: 'u', onConflict } });
    expect(await unique('replace')).toMatchObject({ outcome: 'enqueued' });
    expect(await unique('replace')).toMatchObject({ outcome: 'replaced' });
    const old = await unique('debounce');
    const { id, outcome } = await unique('supersede');
    expect([outcome, id === old.id]).toEqual(['superseded', false]);
    expect(await operator.jobs.amend([id], { priority: 5 })).toMatchObject([{ verdict: 'changed' }]);
    expect(await operator.jobs.cancel([id])).toMatchObject([{ verdict: 'cancelled' }]);
    const erased = await producer.enqueue(nobody, { n: 0 }, { delay: '1h' });
    expect(await operator.jobs.erase([erased.id])).toMatchObject([{ verdict: 'erased' }]);
    await producer.enqueue(nobody, { n: 0 }, { expiresAt: new Date(Date.now() + 100) });
    await until('one to expire', async () => (await states())['expired'] === 1);
    await until('five to be dead', async () => (await states())['dead'] === 5);
    await operator.dead.redrive({ task: 'quick' });
    const started = await producer.start(
      flow('two')
        .step('first', quick.job({ n: 0 }))
        .step('second', quick.job({ n: 0 }), { needs: ['first'] }),
    );
    expect(await started.ended()).toMatchObject({ outcome: 'done' });
    await until('five to be dead again', async () => (await states())['dead'] === 5);
    await until('a slot of the schedule', async () => ((await states())['done'] ?? 0) > 16);
    await operator.schedules.remove('each second');
    await until('all to end', async () => {
      const { pending = 0, ready = 0, running = 0, delayed = 0 } = await states();
      return pending + ready + running === 0 && delayed === 2_000;
    });
    const written = await admin.query('select distinct id from written');
    expect(written.rows).toHaveLength(5);
    expect(await maintained(() => maintainHistory(database))).toMatchObject({ outcome: 'done' });
    await operator.queues.set('default', { retention: '1h' });
    expect(await trimHistory(database)).toMatchObject({ outcome: 'done' });
    // what people look at has its times, however the server writes dates
    const migrations = await migrationStatus({ connectionString: url });
    expect(migrations.every(({ applied }) => applied instanceof Date)).toBe(true);
    const [jobs, dead] = [await operator.jobs.list(), await operator.dead.list()];
    for (const { created } of [...jobs.items, ...dead.items]) expect(created).toBeInstanceOf(Date);
    const { rows: ended } = await admin.query<{ id: string }>('select id from pgqueue.history limit 1');
    expect(await operator.jobs.erase(ended.map(({ id }) => id))).toMatchObject([{ verdict: 'erased' }]);
    expect(await operator.doctor()).toMatchObject({ healthy: true });
  } finally {
    await Promise.all([scheduler.stop(), worker.stop(), producer.close()]);
    await Promise.all([operator.close(), database.close()]);
  }
  return events;
}

const errorsIn = (events: readonly PgQueueEvent[]): readonly unknown[] =>
  events.flatMap((event) => (event.type === 'database.error' ? [event.error] : []));

interface Row {
  readonly settings: Readonly<Record<string, string>>;
  /** SQL that runs before the system starts. */
  readonly sql?: string;
  /** Events that the system must report at its start. */
  readonly told?: readonly unknown[];
  /** SQLSTATEs of errors that the setting must not cause. */
  readonly never?: readonly string[];
}

const rows: Readonly<Record<string, Row>> = {
  'nothing of the kind': { settings: {}, never: ['25001', '40001', '57014', '55P03'] },
  'repeatable read': {
    settings: { default_transaction_isolation: 'repeatable read' },
    told: [expect.stringMatching(/default_transaction_isolation is repeatable read .*alter role/)],
    never: ['25001', '40001'],
  },
  serializable: {
    settings: { default_transaction_isolation: 'serializable' },
    told: [expect.stringMatching(/default_transaction_isolation is serializable .*alter role/)],
    never: ['25001', '40001'],
  },
  'dates that pg does not read': {
    settings: { DateStyle: 'German', IntervalStyle: 'sql_standard' },
    told: [expect.stringMatching(/DateStyle is German, DMY .*alter role … set DateStyle = 'ISO'/)],
    never: ['25001', '40001'],
  },
  'time limits': {
    settings: {
      statement_timeout: '5s',
      lock_timeout: '1s',
      idle_in_transaction_session_timeout: '5s',
      idle_session_timeout: '1s',
      transaction_timeout: '10s',
    },
  },
  'a publication of all tables': { settings: {}, sql: 'create publication everything for all tables' },
  'columns of somebody else in every table': {
    settings: {},
    sql: `do $$ declare t regclass; begin
      for t in select oid from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'p') and not relispartition loop
        execute format('alter table %s add note text not null default %L, add if not exists started timestamptz,
                        add if not exists data text, add if not exists outcome text, add if not exists reason text', t, 'theirs');
      end loop;
    end $$`,
    never: ['42601', '42702', '42846'],
  },
};

/** From PostgreSQL 17 on. */
const recent = ['transaction_timeout'];

test.each(
  Object.entries(rows).flatMap(([name, row]) =>
    (['role', 'database'] as const).map((of) => ({ name, of, ...row })),
  ),
)('a system under $name, set for the $of', async ({ settings, sql = '', told = [], never = [], of }) => {
  await admin.query('create table written (id uuid not null)');
  await admin.query(sql);
  const { rows: known } = await admin.query('select name from pg_settings where name = any ($1)', [recent]);
  for (const [setting, value] of Object.entries(settings)) {
    if (recent.includes(setting) && known.length === 0) continue;
    const whose = of === 'role' ? `role postgres in database ${own.test.name}` : `database ${own.test.name}`;
    await admin.query(`alter ${whose} set ${setting} = '${value}'`);
  }
  const errors = errorsIn(await goThrough(own.url));
  expect(errors.filter((error) => never.includes(sqlState(error) ?? ''))).toEqual([]);
  const said = errors.map((error) => (error as Error).message).filter((text) => text.includes('alter role'));
  expect(said.slice(0, 1)).toEqual(told);
});

test('where only reads are allowed, each process says what to change, and goes on when it is changed', async () => {
  await admin.query('create table written (id uuid not null)');
  await admin.query(`alter database ${own.test.name} set default_transaction_read_only = on`);
  const told: string[] = [];
  const database = openDatabase({ connectionString: own.url, onError: ({ message }) => told.push(message) });
  const insert = (): Promise<unknown> =>
    database.query(`insert into pgqueue.queue (task, payload) values ('nobody', '{}') returning id`, []);
  await expect(insert()).rejects.toMatchObject({ code: '25006' });
  await expect(insert()).rejects.toMatchObject({ code: '25006' });
  expect(told).toEqual([
    expect.stringMatching(/default_transaction_read_only is on .*"alter role .* = off"/),
  ]);
  await admin.query('set default_transaction_read_only = off');
  await admin.query(`alter database ${own.test.name} reset default_transaction_read_only`);
  expect(await insert()).toHaveLength(1);
  await database.close();
});

test('a default that is changed later counts from the first statement on that it made fail', async () => {
  const database = openDatabase({ connectionString: own.url });
  const level = async (): Promise<unknown> =>
    (
      await database.query<{ level: string }>(`select current_setting('transaction_isolation') as level`, [])
    )[0]?.level;
  expect(await level()).toBe('read committed');
  await admin.query(`alter database ${own.test.name} set default_transaction_isolation = 'repeatable read'`);
  await admin.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()',
    [own.test.name],
  );
  await until('the connection to be gone', () => database.pool.totalCount === 0);
  expect(await level()).toBe('repeatable read');
  const cancel = (): Promise<unknown> => database.query(`select * from pgqueue.cancel('{}')`, []);
  await expect(cancel()).rejects.toMatchObject({ code: '25001' });
  expect(await cancel()).toEqual([]);
  expect(await level()).toBe('read committed');
  await database.close();
});
