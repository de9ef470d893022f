import type { Duration } from '@pgqueue/core';
import { durationMs, PgQueueError } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import { openDatabase, sqlState } from '@pgqueue/postgres';
import { clockSchema, installClock, pointSessions, putForward } from './clock-sql.ts';

/**
 * The clock of one test database, which is the only one that pgqueue has: for delays, retries, schedules, rates, expiry. It goes on
 * beside the real one, and is put forward by hand. `Date` and timers of JavaScript know nothing of it.
 */
export interface TestClock {
  readonly now: () => Promise<Date>;
  /**
   * Makes due what is due by then; a drain, or a running scheduler, then sees to it. Leases of jobs that run meanwhile, and the
   * heartbeats of nodes, go along. Resolves to the new time.
   * @throws {PgQueueError} `configuration`
   */
  readonly advance: (by: Duration) => Promise<Date>;
  /** The same up to a time. @throws {PgQueueError} `configuration` for one that has passed */
  readonly advanceTo: (time: Date) => Promise<Date>;
  /** Back to the real time: with jobs that wait or run, they have more to wait. Empty the tables first. */
  readonly reset: () => Promise<void>;
}

/** Which database, and which pgqueue in it. */
export interface ClockOptions {
  readonly connectionString: string;
  /** Default `pgqueue`. */
  readonly schema?: string;
}

/**
 * Gives a test database of your own a clock; the databases of `createTestDatabase` have one. Needs the rights of its owner, and counts
 * for sessions that begin afterwards. Repeat it after each migration. Never in a database that is to live: there is no way back
 * but `drop schema pgqueue_clock` and a migration from nothing.
 */
export async function addClock(options: ClockOptions): Promise<TestClock> {
  const database = openDatabase({ ...options, applicationName: 'pgqueue test clock', connectionsMax: 1 });
  try {
    await installClock(database);
    await pointSessions(database);
  } finally {
    await database.close();
  }
  return clockOf(options);
}

/** The clock of a database that has one. Opens a connection for each call, and no other. */
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

/** @throws {PgQueueError} `configuration` where there is none */
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
