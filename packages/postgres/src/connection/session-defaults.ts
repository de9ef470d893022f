import { PgQueueError } from '@pgqueue/core';
import type pg from 'pg';
import { sqlState } from './pg-errors.ts';

type Run = (config: pg.QueryConfig) => Promise<unknown[]>;

/** What role or database have set for every transaction that does not say otherwise. */
export interface SessionDefaults {
  /** Whether a statement must say itself that it is READ COMMITTED. */
  readonly stricter: () => Promise<boolean>;
  /** Asks again after an error that another default may have caused. */
  readonly failed: (error: unknown) => void;
}

/**
 * Asks once, before the first statement. A `SET` of the session would stay behind in a pooler's, and a start-up parameter is refused by some poolers.
 * @param tell hears what is to be changed, once for each value
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
    const [row] = (await run({ text: question, values: [] })) as readonly Answer[];
    if (row === undefined) throw new PgQueueError('invariant', 'no row of settings');
    if (row.reads) tellOnce(problemOf('default_transaction_read_only', 'on', onlyReads));
    const stricter = row.isolation !== 'read committed' && row.isolation !== 'read uncommitted';
    if (stricter) tellOnce(problemOf('default_transaction_isolation', row.isolation, slower));
    return stricter;
  };

  return {
    stricter: () =>
      (asked ??= ask().catch((error: unknown) => {
        asked = undefined;
        throw error;
      })),
    failed: (error) => {
      if (causedByDefaults.has(sqlState(error) ?? '')) asked = undefined;
    },
  };
}

interface Answer {
  readonly isolation: string;
  readonly reads: boolean;
}

/** A standby only reads, too, but by no default. */
const question = `select current_setting('default_transaction_isolation') as isolation,
  current_setting('default_transaction_read_only') = 'on' and not pg_is_in_recovery() as reads`;

/** A stricter level was refused; a serialization failure; a write where only reads are allowed. */
const causedByDefaults: ReadonlySet<string> = new Set(['25001', '40001', '25006']);

const onlyReads = 'nothing is enqueued, dispatched, run or settled until it is off';
const slower =
  'each statement goes in a transaction of its own that says READ COMMITTED, which takes three round trips instead of one';

function problemOf(setting: string, value: string, consequence: string): PgQueueError {
  return new PgQueueError(
    'configuration',
    `${setting} is ${value} for this role or database: ${consequence}; "alter role … set ${setting} = ${setting === 'default_transaction_read_only' ? 'off' : "'read committed'"}", for the role that connects, changes it`,
    { data: { setting, value } },
  );
}
