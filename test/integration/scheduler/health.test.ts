import type { DatabaseHealth, PgQueueEvent } from '@pgqueue/core';
import { databaseHealth, policy, turns } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import { openDatabase, readHealth } from '@pgqueue/postgres/internal';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { createHealthWatch } from '../../../packages/scheduler/src/reporting/database-health.ts';
import { opened } from '../../support/database.ts';
import { openBench, ticks, until } from './support.ts';

const bench = opened(openBench);
const open: pg.Client[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((client) => client.end()));
  await bench.clear();
});

async function session(...statements: readonly string[]): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: bench.test.url });
  await client.connect();
  open.push(client);
  for (const statement of statements) await client.query(statement);
  return client;
}

/** Uses up a transaction id. */
const write = async (): Promise<void> => {
  await bench.database.query(`select pg_current_xact_id()`, []);
};

/** Reads the health all the time while `use` runs. Returns what was observed. */
async function watching(
  database: Database,
  use: (health: () => DatabaseHealth | null) => Promise<void>,
): Promise<readonly PgQueueEvent[]> {
  const events: PgQueueEvent[] = [];
  const observe = (event: PgQueueEvent): unknown => events.push(event);
  const watch = createHealthWatch({ database, observe, needed: true, everyMs: 10 });
  watch.start();
  try {
    await use(watch.health);
  } finally {
    await watch.stop();
  }
  return events;
}

// other tests use up transaction ids, and hold snapshots, on the same server
test('a session that holds a snapshot is seen, and that it is gone', async () => {
  const holder = await session('begin isolation level repeatable read', 'select 1');
  for (let n = 0; n < 3; n += 1) await write();
  const reading = await readHealth(bench.database);
  const held = reading.oldestXid ?? Infinity;
  expect(reading.nextXid - held).toBeGreaterThanOrEqual(3);
  expect(reading.heldForMs).toBeGreaterThan(0);
  await holder.query('rollback');
  await until('it is gone', async () => {
    const { oldestXid } = await readHealth(bench.database);
    return oldestXid === null || oldestXid > held;
  });
});

test('an open write holds vacuum back, too', async () => {
  const holder = await session('begin');
  const { rows } = await holder.query<{ xid: string }>('select pg_current_xact_id()::xid::text as xid');
  await write();
  expect((await readHealth(bench.database)).oldestXid).toBeLessThanOrEqual(Number(rows[0]?.xid));
});

test('the age of a snapshot grows while it is held, for a role without any rights too', async () => {
  const role = `health_${bench.test.name}`;
  await bench.database.query(`create role ${role} login password 'x'`, []);
  await bench.database.query(`grant usage on schema pgqueue to ${role}`, []);
  const url = new URL(bench.test.url);
  [url.username, url.password] = [role, 'x'];
  const database = openDatabase({ connectionString: url.href, connectionsMax: 1 });
  try {
    const events = await watching(database, async (health) => {
      await until('a first reading', () => health() !== null);
      await session('begin isolation level repeatable read', 'select 1');
      await until('an age', async () => {
        await write();
        return (health()?.oldestSnapshotMs ?? 0) > 100;
      });
      expect(await readHealth(database)).toMatchObject({ heldForMs: null });
    });
    expect(events).toEqual([]);
  } finally {
    await database.close();
    await bench.database.query(`drop owned by ${role}`, []);
    await bench.database.query(`drop role ${role}`, []);
  }
});

test('dead rows of the queue tables are counted; with no standby there is no lag', async () => {
  const before = (await readHealth(bench.database)).deadRows ?? 0;
  await bench.enqueue({ count: 500 });
  await bench.database.query(`delete from pgqueue.queue`, []);
  await until('dead rows', async () => {
    await bench.database.query(`select pg_stat_force_next_flush()`, []);
    return ((await readHealth(bench.database)).deadRows ?? 0) >= before + 500;
  });
  expect((await readHealth(bench.database)).replicationLagMs).toBe(0);
});

test('what can not be read is reported, and tried again', async () => {
  let tries = 0;
  const query = (): Promise<never> => {
    tries += 1;
    return Promise.reject(new Error('no database'));
  };
  const events = await watching({ ...bench.database, query }, async (health) => {
    await until('two tries', () => tries >= 2);
    expect(health()).toBeNull();
  });
  expect(events[0]).toMatchObject({ type: 'database.error', during: 'health', retryMs: 10 });
});

test('a policy that needs it gets it: nothing goes while a snapshot is held', async () => {
  await bench.node();
  await session('begin isolation level repeatable read', 'select 1');
  await write();
  const scheduler = await bench.scheduler({
    policy: policy({ order: turns(), gates: [databaseHealth({ oldestSnapshotMs: 0 })] }),
  });
  await until('a reading', () => ticks(scheduler).length > 3);
  await bench.enqueue({ count: 1 });
  await bench.hint();
  await until('it is held', () => ticks(scheduler).some(({ held }) => held['database_health'] === 1));
  expect(await bench.items()).toEqual([]);
});
