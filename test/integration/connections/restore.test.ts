import { createTestDatabase as copyOf } from '@pgqueue/testing';
import type { Database } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { expect, inject, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { seedOf } from '../../support/seed.ts';

const epoch = '(select epoch from pgqueue.scheduler_lease)';

/** A job in its last life that runs, and one that is to be cancelled, in a copy of the database that they were leased in. */
async function restored(
  work: (database: Database, ids: readonly [string, string]) => Promise<void>,
): Promise<void> {
  const own = await createTestDatabase();
  const before = openDatabase({ connectionString: own.url, connectionsMax: 2 });
  const { insert, run, sql } = seedOf(() => before);
  const last = await insert({ max_crashes: 1 });
  const unwanted = await insert();
  await run('worker-1', [last, unwanted]);
  await sql('select pgqueue.cancel(array[$1::uuid])', [unwanted]);
  await sql(`update pgqueue.work_queue set lock_timeout = now() - interval '1 hour'`);
  await sql(`update pgqueue.node set heartbeat = now() - interval '1 hour'`);
  await sql(`update pgqueue.scheduler_lease set expires = '-infinity'`);
  await before.close();
  const template = new URL(own.url).pathname.slice(1);
  const copy = await copyOf({ adminUrl: inject('adminUrl'), template, schema: 'pgqueue', clock: false });
  const database = openDatabase({ connectionString: copy.url, connectionsMax: 2 });
  try {
    await work(database, [last, unwanted]);
  } finally {
    await database.close();
    await copy.drop();
    await own.drop();
  }
}

const ways: Readonly<Record<string, readonly string[]>> = {
  'its lease has ended, before a scheduler leads': ['select * from pgqueue.reap()'],
  'its lease has ended': [`select * from pgqueue.lead('s', 60000)`, 'select * from pgqueue.reap()'],
  'its node is lost': [
    `select * from pgqueue.lead('s', 60000)`,
    `update pgqueue.reached set since = '-infinity'`,
    `select * from pgqueue.lose_nodes('s', ${epoch})`,
    'select * from pgqueue.reap()', // what was passed over for its own sake
  ],
  'its node is reset': [`select * from pgqueue.reset_node('worker-1')`],
  'its node starts again': [`select * from pgqueue.register_node('worker-1', '{}')`],
};

test.each(Object.keys(ways))(
  'after a restore a job that ran is ready again, and no crash is charged: %s',
  async (way) => {
    await restored(async (database, [last, unwanted]) => {
      for (const text of ways[way] ?? []) await database.query(text, []);
      const jobs = await database.query(
        'select id, status, crashes, suspect, errors from pgqueue.job order by id = $1 desc',
        [last],
      );
      expect(jobs).toEqual([
        { id: last, status: 'ready', crashes: 0, suspect: false, errors: null },
        { id: unwanted, status: 'cancelled', crashes: 0, suspect: false, errors: expect.anything() },
      ]);
    });
  },
);

test('a crash after the restore is charged', async () => {
  await restored(async (database, [last]) => {
    const { run, sql } = seedOf(() => database);
    await sql('select * from pgqueue.reap()');
    await sql(`delete from pgqueue.work_queue`);
    await run('worker-2', [last]);
    await sql(`select * from pgqueue.reset_node('worker-2')`);
    expect(await sql('select status, reason, crashes from pgqueue.job where id = $1', [last])).toEqual([
      { status: 'dead', reason: 'crash_limit', crashes: 1 },
    ]);
  });
});
