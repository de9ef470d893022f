import type { Enqueued, Observer } from '@pgqueue/core';
import type { JobRow, Shape } from '@pgqueue/core/internal';
import { allObservers } from '@pgqueue/core';
import { aFlag, aFunction, optional, optionProblems } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { throwProblems } from '@pgqueue/core/internal';
import type { Database, DatabaseOptions, Executor, PgQueryable } from '@pgqueue/postgres';
import type { Hints } from '@pgqueue/postgres/internal';
import {
  checkSchemaName,
  checkSchemaVersion,
  columnsToCopy,
  copyJobs,
  createHints,
  databaseShape,
  warnWithoutLeader,
  defaultSchema,
  enqueueAndHint,
  enqueueJobs,
  hintFacts,
  isIdTaken,
  openDatabase,
  toExecutor,
} from '@pgqueue/postgres/internal';
import { createMetrics } from '@pgqueue/telemetry';
import type { Enqueuer, Write } from './enqueuer.ts';
import { createEnqueuer } from './enqueuer.ts';
import { createLateHints } from './late-hints.ts';
import { repeatable } from './repeat.ts';
import type { ResultOptions } from './results.ts';
import { createResults } from './results.ts';
import type { TraceSource } from './rows.ts';

/**
 * With neither `connectionString` nor `pool` the producer has no connection of its own: it enqueues through `with` only, and
 * sends no hints.
 */
export interface ProducerOptions extends DatabaseOptions {
  /** Wakes the scheduler after an enqueue, from outside any transaction. Without it, the scheduler polls. Default true. */
  readonly notify?: boolean;
  /**
   * Hears by LISTEN of jobs that have ended, on one connection of its own, which is open while somebody waits for a `result`.
   * False: waits poll, as with a `pool` alone, for PgBouncer in transaction mode. Default true.
   */
  readonly listen?: boolean;
  readonly observe?: Observer;
  /**
   * Called for each job without a `trace` of its own; gives the trace context that it shall carry. Not needed with OpenTelemetry: where
   * an SDK is registered, each enqueue is a span, and its jobs carry that.
   *
   * A value that is no W3C trace context is left out, and so is one that throws: telemetry stops no job.
   */
  readonly trace?: TraceSource;
}

export interface Producer extends Enqueuer {
  /**
   * Enqueues within a transaction of yours: the jobs commit and roll back with it. Takes a `pg` client, or any other library's
   * transaction through its adapter (`@pgqueue/producer/kysely` and so on). Nothing is retried here; an error has aborted the
   * transaction, but for `invalid_job`, which comes before any statement. Await the result of such a job by the producer itself,
   * after the commit: before it, nobody else can see the job, and nothing runs it.
   */
  with(tx: Executor | PgQueryable): Enqueuer;
  /**
   * Waits until a job has ended, and resolves to its result: the JSON of what its handler returned. `job`: what an enqueue returned,
   * which has the type of the result if the task has a schema for it, or the id of any job. The history of the job's queue must be kept.
   *
   * Any number of waits share one statement at a time, and one connection that hears of ended jobs. Without that connection
   * (a `pool` alone, or `listen: false`) they poll: after 25 ms at first, and then ever less often, down to once a second.
   * @throws {PgQueueError} `job_dead` (`data.error`: the error of its last attempt), `job_cancelled`, `job_expired`;
   * `result_timeout` (`data.status`); `not_found`: it never was, was erased, or its history is gone; `result_lost`: it is done,
   * and its result could not be stored; `closed`: the producer was closed meanwhile; `configuration`, before any I/O
   */
  result<Result = unknown>(job: string | Enqueued<Result>, options?: ResultOptions): Promise<Result>;
  /**
   * Waits for enqueues under way, then ends the pool, unless it was given. Waits for results reject with `closed`. May be called
   * again.
   */
  close(): Promise<void>;
}

const shape: Shape<ProducerOptions> = {
  ...databaseShape,
  notify: optional(aFlag),
  listen: optional(aFlag),
  observe: optional(aFunction),
  trace: optional(aFunction),
};

/**
 * A producer. Opens no connection yet; before its first enqueue it checks once that the schema is one it can use.
 * Outside of a caller's transaction an enqueue that meets a transient error (a broken connection, a restart) is repeated for
 * some seconds: its ids make that safe.
 * @throws {PgQueueError} `configuration`
 */
export function createProducer(options: ProducerOptions): Producer {
  checkOptions(options);
  const { notify = true, trace } = options;
  const { observe: measure } = createMetrics({ role: 'producer', prometheus: false });
  const observe = allObservers(options.observe, measure);
  const schema = checkSchemaName(options.schema ?? defaultSchema);
  const database = ownDatabase(options, observe);
  const hints = database === undefined || !notify ? undefined : createHints(database, schema, 'queue');
  const lateHints = hints === undefined ? undefined : createLateHints(hints);
  const underWay = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;
  let verified = false;
  let leaderless: { readonly stop: () => void } | undefined;
  const common = { trace, observe, underWay, isClosed: () => closing !== undefined };

  const verify = async (executor: Executor): Promise<void> => {
    await checkSchemaVersion(executor, schema);
    verified = true;
    if (database !== undefined && closing === undefined)
      leaderless ??= warnWithoutLeader(database, { isIdle: () => true });
  };

  const telling = async (writing: Promise<readonly Enqueued[]>): Promise<readonly Enqueued[]> => {
    const enqueued = await writing;
    if (enqueued.some(({ outcome }) => outcome !== 'kept')) hints?.send();
    return enqueued;
  };

  const writeNew = async (at: Database, rows: readonly JobRow[]): Promise<readonly Enqueued[]> => {
    const [row] = rows;
    const facts = row === undefined || rows.length > 1 ? null : hintFacts(row);
    if (row !== undefined && facts !== null && hints?.ride() === true)
      return enqueueOne(at, hints, row, facts);
    const columns = columnsToCopy(rows);
    return telling(columns === undefined ? enqueueJobs(at, rows) : copyJobs(at, rows, columns));
  };

  const outside: Write = async (rows, again) => {
    if (database === undefined) throw noDatabase();
    return repeatable({
      observe,
      work: async (repeated) => {
        if (!verified) await verify(database);
        if (again || repeated) return telling(enqueueJobs(database, rows, { again: true }));
        try {
          return await writeNew(database, rows);
        } catch (error) {
          // the ids are new: a pool that was given, or something on the way, has sent the statement twice
          if (!isIdTaken(error)) throw error;
          return telling(enqueueJobs(database, rows, { again: true }));
        }
      },
    });
  };

  const inside =
    (executor: Executor): Write =>
    async (rows, again) => {
      if (!verified) await verify(executor);
      return enqueueJobs({ ...executor, schema }, rows, { again });
    };

  const results = createResults(options, { database, observe, verify: async (at) => verified || verify(at) });

  const close = async (): Promise<void> => {
    const awaited = results.stop();
    await Promise.allSettled(underWay);
    lateHints?.stop();
    leaderless?.stop();
    await Promise.all([awaited, hints?.stop()]);
    await database?.close();
  };

  return {
    ...createEnqueuer({ ...common, write: outside, hint: undefined }),
    with: (tx) => createEnqueuer({ ...common, write: inside(toExecutor(tx)), hint: lateHints?.send }),
    result: results.result,
    close: () => (closing ??= close()),
  };
}

/** With its hint, in one statement. */
async function enqueueOne(
  database: Database,
  hints: Hints,
  row: JobRow,
  facts: string,
): Promise<readonly Enqueued[]> {
  let hinted = false;
  try {
    hinted = await enqueueAndHint(database, row, facts);
    return [{ id: row.id, outcome: 'enqueued' }];
  } finally {
    hints.rode(hinted);
  }
}

function checkOptions(options: ProducerOptions): void {
  const problems = [...optionProblems(options, shape), ...unsetProblems(options)];
  throwProblems('configuration', 'the producer', problems);
}

/** An environment variable that is not set would only be found out by the first enqueue. */
function unsetProblems(options: ProducerOptions): readonly string[] {
  if (typeof options !== 'object' || options === null || !Object.hasOwn(options, 'connectionString'))
    return [];
  if (options.connectionString !== undefined || options.pool !== undefined) return [];
  return [
    'connectionString is undefined: is its environment variable set? Leave it out for a producer that enqueues through with() only',
  ];
}

function ownDatabase(options: ProducerOptions, observe: Observer): Database | undefined {
  if (options.connectionString === undefined && options.pool === undefined) return undefined;
  return openDatabase({
    applicationName: 'pgqueue producer',
    onError: (error) => observe({ type: 'database.error', during: 'idle', error }),
    // behind a pooler in transaction mode the first that fails is repeated without, and so are all others
    prepare: options.pool === undefined,
    ...options,
  });
}

function noDatabase(): PgQueueError {
  return new PgQueueError(
    'configuration',
    'this producer has no database of its own: give connectionString or pool, or enqueue through with(transaction)',
  );
}
