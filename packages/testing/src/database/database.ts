import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { optionProblems, throwProblems } from '@pgqueue/core/internal';
import type { Database, Executor } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type pg from 'pg';
import type { TestClock } from '../clock/clock.ts';
import { clockOf } from '../clock/clock.ts';
import { pointSessions } from '../clock/clock-sql.ts';
import type { ServerAddress } from './server.ts';
import { asAdmin, aServerAddress, serverOfRun, withDatabase } from './server.ts';

/**
 * A throw-away database with pgqueue in it. It runs statements on connections of its own, which `drop`
 * closes.
 */
export interface TestDatabase extends Executor {
  /** Connection string. */
  readonly url: string;
  readonly name: string;
  readonly schema: string;
  readonly clock: TestClock;
  /**
   * Empties pgqueue's tables, including settings and schedules, and resets the clock. For use between tests.
   * Your own tables are left as they are.
   */
  readonly clear: () => Promise<void>;
  /**
   * Drops the database. Fails when a connection is still open after 2 s, because some client was not closed. The database then
   * stays: an embedded server goes with all of them, and elsewhere a later run drops it after a day. May be called again.
   */
  readonly drop: () => Promise<void>;
}

const graceMs = 2_000;
const pollMs = 20;

/**
 * Creates a copy of the run's template, for a test file or for a test that needs its own. About as fast as
 * copying its files.
 * @param server default: the server that `globalSetup` or `startTestServer` has started for this run
 * @throws {PgQueueError} `configuration` if there is none
 */
export async function createTestDatabase(server: ServerAddress = serverOfRun()): Promise<TestDatabase> {
  throwProblems(
    'configuration',
    'createTestDatabase',
    optionProblems({ server }, { server: aServerAddress }),
  );
  const { adminUrl, schema, clock } = server;
  const name = `pgqueue_test_${Date.now()}_${randomBytes(5).toString('hex')}`;
  await asAdmin(adminUrl, (admin) => createFrom(admin, server.template, name));
  const url = withDatabase(adminUrl, name);
  if (clock) await asAdmin(url, (own) => own.query(pointSessions));
  const database = openDatabase({
    connectionString: url,
    schema,
    connectionsMax: 2,
    applicationName: 'pgqueue test database',
  });
  const time = clockOf({ connectionString: url, schema });
  const drop = async (): Promise<void> => {
    await database.close();
    try {
      await asAdmin(adminUrl, (admin) => dropWhenFree(admin, name));
    } catch (error) {
      dropped = undefined;
      throw error;
    }
  };
  let dropped: Promise<void> | undefined;
  return {
    url,
    name,
    schema,
    clock: time,
    query: database.query,
    clear: async () => {
      await empty(database);
      if (clock) await time.reset();
    },
    drop: () => (dropped ??= drop()),
  };
}

/**
 * Creates the copy. The lock keeps copies apart: PostgreSQL refuses a template that another copy has open.
 */
async function createFrom(admin: pg.Client, template: string, name: string): Promise<void> {
  await admin.query('select pg_advisory_lock(hashtextextended($1, 0))', [template]);
  await admin.query(`create database ${name} template ${template} strategy file_copy`);
}

/** Tables with rows that a migration has made, and that must exist. */
const kept: readonly string[] = ['migration', 'scheduler_lease', 'reached', 'activity_mark'];

/**
 * Empties all tables but those. Their names come from the catalogue: only the migrations know which tables
 * there are.
 */
async function empty({ transaction, schema }: Database): Promise<void> {
  await transaction(async (client) => {
    const { rows } = await client.query<{ readonly name: string }>(
      `select c.relname as name from pg_class c
       where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> all ($2)
       order by c.relname = 'queue', c.relname`,
      [schema, kept],
    );
    for (const { name } of rows) await client.query(`delete from ${schema}.${name}`);
    await client.query(`update ${schema}.activity_mark set counted_to = '-infinity'`);
  });
}

async function dropWhenFree(admin: pg.Client, name: string): Promise<void> {
  const deadline = performance.now() + graceMs;
  let open = await sessions(admin, name);
  while (open.length > 0 && performance.now() < deadline) {
    await delay(pollMs);
    open = await sessions(admin, name);
  }
  // A forced drop would end those connections, and a client that nobody listens to would end the process before this error is told.
  if (open.length > 0) {
    throw new Error(
      `${open.length} connection(s) to ${name} leaked: end your clients, stop and close what uses it, before drop()\n${open.join('\n')}`,
    );
  }
  await admin.query(`drop database if exists ${name} with (force)`);
}

async function sessions(admin: pg.Client, name: string): Promise<readonly string[]> {
  const { rows } = await admin.query<{ readonly session: string }>(
    `select format('%s, %s, last: %s', application_name, state, left(query, 120)) as session
       from pg_stat_activity where datname = $1 and backend_type = 'client backend'`,
    [name],
  );
  return rows.map(({ session }) => session);
}
