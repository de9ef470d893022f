import type { Duration } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { durationMs } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import { openDatabase, sqlState } from '@pgqueue/postgres/internal';
import { clockSchema, installClock, pointSessions, putForward } from './clock-sql.ts';

/**
 * Clock of one test database, and the only clock that pgqueue uses: for delays, retries, schedules, rates and
 * expiry. It runs beside the real one, and is put forward by hand. `Date` and timers of JavaScript do not
 * follow it.
 */
export interface TestClock {
  readonly now: () => Promise<Date>;
  /**
   * Puts the clock forward, which makes due what is due by then; a drain, or a running scheduler, sees to it.
   * Leases of running jobs and heartbeats of nodes move along. Resolves to the new time.
   * @throws {PgQueueError} `configuration`
   */
  readonly advance: (by: Duration) => Promise<Date>;
  /**
   * Puts the clock forward to a time.
   * @throws {PgQueueError} `configuration` for a time that has passed
   */
  readonly advanceTo: (time: Date) => Promise<Date>;
  /** Returns to the real time. Jobs that wait or run then have longer to wait, so empty the tables first. */
  readonly reset: () => Promise<void>;
}

/** A database, and the schema of pgqueue in it. */
export interface ClockOptions {
  readonly connectionString: string;
  /** Schema of pgqueue. Default `pgqueue`. */
  readonly schema?: string;
}

/**
 * Gives a test database of your own a clock; the databases of `createTestDatabase` have one. Needs the rights
 * of its owner, and counts for sessions that begin afterwards. Repeat it after each migration. Never use it
 * in a database that is to live: the only way back is `drop schema pgqueue_clock` and a migration from
 * nothing.
 */
export async function addClock(options: ClockOptions): Promise<TestClock> {
  const database = openDatabase({ ...options, applicationName: 'pgqueue test clock', connectionsMax: 1 });
  try {
    await installClock(database);
    await database.query(pointSessions, []);
  } finally {
    await database.close();
  }
  return clockOf(options);
}

/** Returns the clock of a database that has one. Opens a connection for each call, and no other. */
export function clockOf(options: ClockOptions): TestClock {
  const withDatabase = async <Result>(work: (database: Database) => Promise<Result>): Promise<Result> => {
    const database = openDatabase({ ...options, applicationName: 'pgqueue test clock', connectionsMax: 1 });
    try {
      return await work(database);
    } catch (error) {
      throw sqlState(error) === '42P01' || sqlState(error) === '3F000' ? noClock(error) : error;
    } finally {
      await database.close();
    }
  };
  const forward = async (to: Parameters<typeof putForward>[1]): Promise<Date> =>
    new Date(await withDatabase((database) => putForward(database, to)));
  const now = (): Promise<Date> =>
    withDatabase(async ({ query }) => {
      const [row] = await query<{ ms: number }>(
        `select extract(epoch from ${clockSchema}.clock_timestamp())::float8 * 1000 as ms`,
        [],
      );
      return new Date(row?.ms ?? Number.NaN);
    });
  return {
    now,
    advance: async (by) => forward({ byMs: durationMs(by, 'clock.advance') }),
    advanceTo: async (time) => {
      const toMs = time instanceof Date ? time.getTime() : Number.NaN;
      if (Number.isNaN(toMs)) throw new PgQueueError('configuration', 'clock.advanceTo takes a Date');
      const present = await now();
      if (toMs < present.getTime()) throw passed(time, present);
      return forward({ toMs });
    },
    reset: () =>
      withDatabase(async ({ query }) => {
        await query(`update ${clockSchema}.ahead set by = interval '0'`, []);
      }),
  };
}

/**
 * Checks that the database has a clock.
 * @throws {PgQueueError} `configuration` if it has none
 */
export async function needClock({ query }: Pick<Database, 'query'>): Promise<void> {
  const [row] = await query<{ found: boolean }>('select to_regclass($1) is not null as found', [
    `${clockSchema}.ahead`,
  ]);
  if (row?.found !== true) throw noClock();
}

function passed(time: Date, now: Date): PgQueueError {
  return new PgQueueError(
    'configuration',
    `clock.advanceTo: ${time.toISOString()} has passed, by this clock it is ${now.toISOString()}: a clock goes forward only`,
  );
}

function noClock(cause?: unknown): PgQueueError {
  return new PgQueueError(
    'configuration',
    'this database has no clock that can be put forward: make it with createTestDatabase, or give it one with addClock',
    { cause },
  );
}
