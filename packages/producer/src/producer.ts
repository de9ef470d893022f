import type { AnyFlow, Codec, Enqueued, Observer, StepsOf } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { allObservers } from '@pgqueue/core';
import { aCodec, aFlag, aFunction, optional, optionProblems } from '@pgqueue/core/internal';
import { throwProblems } from '@pgqueue/core/internal';
import type { Database, DatabaseOptions, Executor, PgQueryable } from '@pgqueue/postgres';
import type { KeyVersions } from '@pgqueue/postgres/internal';
import {
  checkSchemaName,
  checkSchemaVersion,
  createHints,
  databaseShape,
  warnWithoutLeader,
  defaultSchema,
  openDatabase,
  readIdentity,
  toExecutor,
} from '@pgqueue/postgres/internal';
import { createMetrics } from '@pgqueue/telemetry';
import type { Enqueuer } from './enqueuer.ts';
import { createEnqueuer } from './enqueuer.ts';
import type { FlowHandleOf } from './flow-ends.ts';
import { createFlowEnds } from './flow-ends.ts';
import { createIds } from './ids.ts';
import type { FlowStarter } from './flows.ts';
import { createFlowStarter } from './flows.ts';
import { createLateHints } from './late-hints.ts';
import type { ResultOptions } from './results.ts';
import { createResults } from './results.ts';
import type { TraceSource } from './rows.ts';
import { together } from './together.ts';
import type { Verify, WritePath } from './writing.ts';
import { writingNowhere, writingOutside, writingWithin } from './writing.ts';

/**
 * With neither `connectionString` nor `pool` the producer has no connection of its own: it enqueues through `with` only, and
 * sends no hints.
 */
export interface ProducerOptions extends DatabaseOptions {
  /** Wakes the scheduler after an enqueue, from outside any transaction. Without it, the scheduler polls. Default true. */
  readonly notify?: boolean;
  /**
   * Hears by LISTEN of jobs and of flows that have ended, on a connection each, which is open while somebody waits for one.
   * False: waits poll, as with a `pool` alone, for PgBouncer in transaction mode. Default true.
   */
  readonly listen?: boolean;
  readonly observe?: Observer;
  /** Encrypts payloads and signals, and decrypts results: what `encrypted` returns. Workers need the same. Default: none. */
  readonly codec?: Codec;
  /**
   * Called for each job without a `trace` of its own; gives the trace context that it shall carry. Not needed with OpenTelemetry: where
   * an SDK is registered, each enqueue is a span, and its jobs carry that.
   *
   * A value that is no W3C trace context is left out, and so is one that throws: telemetry stops no job.
   */
  readonly trace?: TraceSource;
}

export interface Producer extends Enqueuer, FlowStarter {
  /**
   * Enqueues, starts flows and signals within a transaction of yours: jobs and flows commit and roll back with it. Takes a `pg` client, or any other library's
   * transaction through its adapter (`@pgqueue/producer/kysely` and so on). Nothing is retried here; an error has aborted the
   * transaction, but for `invalid_job`, which comes before any statement. Await the result of such a job by the producer itself,
   * after the commit: before it, nobody else can see the job, and nothing runs it.
   */
  with(tx: Executor | PgQueryable): Enqueuer & FlowStarter;
  /**
   * Waits until a job has ended, and resolves to its result: the JSON of what its handler returned. `job`: what an enqueue returned,
   * which has the type of the result if the task has a schema for it, or the id of any job. The history of the job's queue must be kept.
   *
   * Any number of waits share one statement at a time, and one connection that hears of ended jobs. Without that connection
   * (a `pool` alone, or `listen: false`) they poll: after 25 ms at first, and then ever less often, down to once a second.
   * @throws {PgQueueError} `job_dead` (`data.error`: the error of its last attempt), `job_cancelled`, `job_expired`;
   * `result_timeout` (`data.status`); `not_found`: it never was, was erased, its history is gone, or it belongs to
   * a step of a flow that has not opened: await the flow first; `result_lost`: it is done, and its result could not be stored; `key_missing`, `undecodable`: the result is encrypted, and can't be decrypted here; `closed`: the producer was closed meanwhile; `configuration`, before any I/O
   */
  result<Result = unknown>(job: string | Enqueued<Result>, options?: ResultOptions): Promise<Result>;
  /**
   * A flow by its id, such as one that another process started: awaits its end, and reads its results. Asks nothing yet.
   * @throws {PgQueueError} `configuration`: the id is no UUID
   */
  flow<Of extends AnyFlow>(id: string): FlowHandleOf<StepsOf<Of>>;
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
  codec: optional(aCodec),
  trace: optional(aFunction),
};

/**
 * A producer. Opens no connection yet; before its first enqueue it checks once that the schema is one it can use.
 * Outside of a caller's transaction an enqueue that meets a transient error (a broken connection, a restart) is repeated for
 * 15 seconds: its ids make that safe.
 * @throws {PgQueueError} `configuration`
 */
export function createProducer(options: ProducerOptions): Producer {
  return makeProducer(options);
}

/**
 * A producer of one installation of a router. Its enqueues outside of transactions check that it is the home of their
 * keys.
 * @param versions the version of the route that the router knows of a key
 * @throws {PgQueueError} `configuration`; later `moved`: `data.ids` has the ids that the jobs would have had,
 * `data.known` those of them that are known there from an earlier try, and `data.repeated` says that there was a try
 * before whose outcome is not known
 */
export function createRoutedProducer(options: ProducerOptions, versions: KeyVersions): Producer {
  return makeProducer(options, versions);
}

function makeProducer(options: ProducerOptions, versions?: KeyVersions): Producer {
  checkOptions(options);
  const { notify = true, trace, codec } = options;
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
  const ids = createIds();
  const common = { trace, observe, codec, ids, underWay, isClosed: () => closing !== undefined };

  const check = async (executor: Executor): Promise<void> => {
    await checkSchemaVersion(executor, schema);
    ids.learn(
      (await readIdentity({ query: (text, values) => executor.query(text, values), schema }))?.number ?? null,
    );
    verified = true;
    if (database !== undefined && closing === undefined)
      leaderless ??= warnWithoutLeader(database, { isIdle: () => true });
  };
  const verify: Verify = (executor) => (verified ? undefined : check(executor));

  const waiting = database && {
    database,
    connectionString: options.listen === false ? undefined : options.connectionString,
    applicationName: options.applicationName ?? 'pgqueue producer results',
    observe,
    verify: async () => verify(database),
  };
  const results = createResults(waiting, codec);
  const ends = createFlowEnds(waiting, codec);
  const producing = (writing: WritePath): Enqueuer & FlowStarter => ({
    ...createEnqueuer({ ...common, write: writing.write, check: writing.check }),
    ...createFlowStarter({ ...common, writing, check: writing.check, handle: ends.handle }),
  });

  const close = async (): Promise<void> => {
    const awaited = Promise.all([ends.stop(), results.stop()]);
    await Promise.allSettled(underWay);
    lateHints?.stop();
    leaderless?.stop();
    await Promise.all([awaited, hints?.stop()]);
    await database?.close();
  };

  const outside = database && writingOutside({ database, hints, observe, verify, versions });
  return {
    // a router's jobs go alone: one whose key has moved would have the others repeated
    ...producing(
      outside === undefined ? writingNowhere : versions === undefined ? together(outside) : outside,
    ),
    with: (tx) => producing(writingWithin({ ...toExecutor(tx), schema }, { verify, hint: lateHints?.send })),
    result: results.result,
    flow: ends.flow,
    close: () => (closing ??= close()),
  };
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
