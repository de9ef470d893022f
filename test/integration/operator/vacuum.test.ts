import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const own = useDatabase();
const { database, operator, sql } = own;

test('names the session that holds the oldest snapshot', async () => {
  const holder = await database.pool.connect();
  try {
    await holder.query(`set application_name = 'a long report'`);
    await holder.query('begin isolation level repeatable read');
    const { rows } = await holder.query(
      'select pg_backend_pid() as pid from pgqueue.queue right join (select 1) o on true',
    );
    await sql('insert into pgqueue.queue (task) values ($1)', ['hello']);
    const { oldestSnapshot } = await operator.status();
    expect(oldestSnapshot).toMatchObject({
      pid: rows[0].pid,
      application: 'a long report',
      state: 'idle in transaction',
      ageMs: expect.any(Number),
    });
  } finally {
    await holder.query('rollback');
    await holder.query('reset application_name');
    holder.release();
  }
});

test('names a session that has written and is still open: it has no snapshot, and holds vacuum back as well', async () => {
  const holder = await database.pool.connect();
  try {
    await holder.query('begin');
    await holder.query(`set local application_name = 'forgotten'`);
    await holder.query('create temporary table written () on commit drop');
    const found = await sql('select backend_xmin from pg_stat_activity where application_name = $1', [
      'forgotten',
    ]);
    expect(found).toMatchObject([{ backend_xmin: null }]);
    // a query of a moment may show the snapshot of another database's older transaction
    await expect
      .poll(async () => (await operator.status()).oldestSnapshot)
      .toMatchObject({ application: 'forgotten' });
  } finally {
    await holder.query('rollback');
    holder.release();
  }
});

test('the doctor names who has held vacuum back for over a minute', async () => {
  // the clock can't be waited for: its sessions began two minutes earlier than they did
  await sql('create schema aged');
  await sql(`create view aged.pg_stat_activity as
    select pid, usename, application_name, usesysid, datname, backend_xid, backend_xmin, xact_start - interval '2 minutes' as xact_start
    from pg_catalog.pg_stat_activity`);
  const url = new URL(own.url);
  url.searchParams.set('options', '-c search_path=aged,pg_catalog');
  const later = openDatabase({ connectionString: url.href, connectionsMax: 1 });
  const doctor = createOperator({ pool: later.pool });
  const holder = await database.pool.connect();
  try {
    await holder.query('begin');
    await holder.query(`set local application_name = 'a long report'`);
    await holder.query('create temporary table written () on commit drop');
    expect((await operator.doctor()).findings).toEqual([]);
    const [{ pid, name }] = (await holder.query('select pg_backend_pid() as pid, current_user as name')).rows;
    const { findings } = await doctor.doctor();
    expect(findings).toMatchObject([
      {
        check: 'old_snapshot',
        severity: 'warning',
        samples: [`pid ${pid}, user ${name}, application a long report`],
      },
    ]);
  } finally {
    await holder.query('rollback');
    holder.release();
    await doctor.close();
    await later.close();
  }
});

test('shows dead rows and bloat of the tables that every job goes through', async () => {
  await sql(`insert into pgqueue.queue (task) select 'hello' from generate_series(1, 2000)`);
  await sql('analyze pgqueue.queue');
  const full = (await operator.status()).tables.find(({ table }) => table === 'queue');
  // whoever vacuums meanwhile must leave them
  const holder = await database.pool.connect();
  try {
    await holder.query('begin isolation level repeatable read');
    await holder.query('select 1');
    await sql('delete from pgqueue.queue');
    // counts of other sessions may come late, on top of what was counted
    const counted = async () => {
      await sql('analyze pgqueue.queue');
      return (await operator.status()).tables;
    };
    const emptied = {
      table: 'queue',
      bytes: full?.bytes,
      deadRows: expect.toSatisfy((rows: number) => rows > 1_000),
      liveRows: expect.toSatisfy((rows: number) => rows < 10),
      bloatBytes: expect.toSatisfy(
        (bytes: number) => bytes > 100_000 && bytes > 2 * (full?.bloatBytes ?? Infinity),
      ),
    };
    await expect.poll(counted, { interval: 250 }).toMatchObject([emptied, { table: 'work_queue' }]);
  } finally {
    await holder.query('rollback');
    holder.release();
  }
});
