import { PgQueueError } from '@pgqueue/core';
import type pg from 'pg';
import { sqlState } from './pg-errors.ts';

type Run = (config: pg.QueryConfig) => Promise<unknown[]>;

/**
 * Begins a transaction that has what pgqueue needs, whatever the defaults. pg reads only ISO dates: of all
 * others it makes null.
 */
export const begin = 'begin isolation level read committed; set local datestyle to iso';

/** Defaults of the role or database for every transaction that does not set its own. */
export interface SessionDefaults {
  /**
   * Resolves to true if the default isolation level is stricter than READ COMMITTED, or the DateStyle is not
   * ISO, so that each statement must go between {@link begin} and a commit.
   */
  readonly unfit: () => Promise<boolean>;
  /** Makes the next statement read the defaults again, if a changed default may have caused the error. */
  readonly failed: (error: unknown) => void;
}

/**
 * Reads the defaults once, before the first statement. They are not overridden: a `SET` would stay behind in
 * a pooler's session, and some poolers refuse start-up parameters.
 * @param tell called with each setting that should be changed, once for each value
 */
export function createSessionDefaults(run: Run, tell: (problem: PgQueueError) => void): SessionDefaults {
  let asked: Promise<boolean> | undefined;
  const told = new Set<string>();
  const tellOnce = (problem: PgQueueError): void => {
    if (told.has(problem.message)) return;
    told.add(problem.message);
    tell(problem);
  };

  const ask = async (): Promise<boolean> => {
    const [row] = (await run({ text: question, values: [] })) as readonly DefaultsRow[];
    if (row === undefined) throw new PgQueueError('invariant', 'no row of settings');
    if (row.reads) tellOnce(problemOf(...onlyReads));
    const stricter = row.isolation !== 'read committed' && row.isolation !== 'read uncommitted';
    if (stricter) tellOnce(problemOf('default_transaction_isolation', row.isolation, slower));
    const foreign = !row.dates.startsWith('ISO');
    if (foreign) tellOnce(problemOf('DateStyle', row.dates, slower));
    return stricter || foreign;
  };

  return {
    unfit: () =>
      (asked ??= ask().catch((error: unknown) => {
        asked = undefined;
        throw error;
      })),
    failed: (error) => {
      if (causedByDefaults.has(sqlState(error) ?? '')) asked = undefined;
    },
  };
}

interface DefaultsRow {
  readonly isolation: string;
  readonly dates: string;
  readonly reads: boolean;
}

/** Reads the defaults. A standby only reads, too, but not by a default. */
const question = `select current_setting('default_transaction_isolation') as isolation,
  current_setting('DateStyle') as dates, current_setting('default_transaction_read_only') = 'on' and not pg_is_in_recovery() as reads`;

/**
 * SQLSTATEs that a changed default may cause: a stricter level was refused; a serialization failure; a write
 * where only reads are allowed.
 */
const causedByDefaults: ReadonlySet<string> = new Set(['25001', '40001', '25006']);

const onlyReads = [
  'default_transaction_read_only',
  'on',
  'nothing is enqueued, dispatched, run or settled until it is off',
] as const;
const slower =
  'each statement goes in a transaction of its own that sets another, which takes three round trips instead of one';

const fitting = {
  default_transaction_isolation: "'read committed'",
  default_transaction_read_only: 'off',
  DateStyle: "'ISO'",
} as const;

function problemOf(setting: keyof typeof fitting, value: string, consequence: string): PgQueueError {
  return new PgQueueError(
    'configuration',
    `${setting} is ${value} for this role or database: ${consequence}; "alter role … set ${setting} = ${fitting[setting]}", for the role that connects, changes it`,
    { data: { setting, value } },
  );
}

/** Says that a default makes all transactions read-only, and how to change it. */
export const readOnlyDefault: string = problemOf(...onlyReads).message;
