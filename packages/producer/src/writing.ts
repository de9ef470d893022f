import type { Enqueued, Observer } from '@pgqueue/core';
import type { FlowRow, JobRow } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import type { Database, Executor } from '@pgqueue/postgres';
import type {
  EnqueueInput,
  EnqueuedRow,
  FlowStarted,
  HintedEnqueue,
  Hints,
  KeyVersions,
  SignalInFlow,
  Target,
} from '@pgqueue/postgres/internal';
import {
  columnsToCopy,
  copyJobs,
  enqueueAndHint,
  enqueueJobs,
  fromPg,
  hintFacts,
  isIdTaken,
  isTransient,
  persistently,
  signalFlow,
  signalJob,
  startFlows,
} from '@pgqueue/postgres/internal';
import type { TakenOver, Write, WriteOptions } from './enqueuer.ts';

/** A way to the database: a producer's own, or a caller's transaction. Its writes send hints. */
export interface WritePath {
  readonly write: Write;
  /** Starts flows, all of them or nothing. */
  readonly start: (rows: readonly FlowRow[], options: StartOptions) => Promise<readonly FlowStarted[]>;
  readonly signal: (given: SignalInFlow) => Promise<Signalled>;
  readonly signalJob: (given: Parameters<typeof signalJob>[1]) => Promise<Signalled>;
  /** Checks the schema, and so learns the installation's number. */
  readonly check: () => Promise<void>;
}

export interface StartOptions extends Pick<WriteOptions, 'once'> {
  /** All ids were made for this call, and there is no unique key: so it waits for nobody's transaction. */
  readonly fresh: boolean;
}

/** Answer to a signal. */
type Signalled = Awaited<ReturnType<typeof signalFlow>>;

/** Checks the schema before the first statement; undefined: it has been checked. */
export type Verify = (executor: Executor) => Promise<void> | undefined;

/** Writes on the producer's own connections, repeated after transient errors. */
export function writingOutside(parts: {
  readonly database: Database;
  readonly hints: Hints | undefined;
  readonly observe: Observer;
  readonly verify: Verify;
  /** Given by a router, which is told of jobs of other installations by `moved`, with the ids that they would have had. */
  readonly versions?: KeyVersions | undefined;
}): WritePath {
  const { database, hints, observe, verify } = parts;
  const hint = hints?.send;
  let checking: Promise<void> | undefined;

  const writeNew = async (rows: readonly JobRow[], home: Home): Promise<readonly Enqueued[]> => {
    if (hints?.lists(rows.length) === true) {
      const facts = rows.flatMap((row) => hintFacts(row) ?? []);
      if (facts.length === rows.length) return enqueueHinted(database, hints, rows, { facts, ...home });
    }
    const columns = home.versions === undefined ? columnsToCopy(rows) : undefined;
    const writing =
      columns === undefined ? enqueueJobs(database, rows, home) : copyJobs(database, rows, columns);
    return hinting(hint, writing);
  };

  const verified = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    const verifying = verify(database);
    if (verifying !== undefined) await verifying;
    return work();
  };
  const failed = (error: unknown, retryMs: number): void =>
    observe({ type: 'database.error', during: 'enqueue', error, retryMs });
  const repeat = <Result>(work: (repeated: boolean) => Promise<Result>): Promise<Result> =>
    persistently((repeated) => verified(() => work(repeated)), failed);

  /** All tries say the same versions: a router that learns of a move between two would have the second accepted. */
  const repeatAtHome = <Result>(
    rows: readonly (JobRow | FlowRow)[],
    once: boolean | undefined,
    work: (home: Home) => Promise<Result>,
  ): Promise<Result> => {
    const { versions } = parts;
    if (once === true) return onceTold(() => verified(() => work({})), failed);
    if (versions === undefined) return repeat((repeated) => work({ repeated }));
    const known = new Map(rows.map(({ key }) => [key, versions(key)]));
    const seen = (key: string): number => known.get(key) ?? 0;
    return repeat((repeated) => telling(rows, { repeated, writing: work({ versions: seen, repeated }) }));
  };

  return {
    write: (rows, { again, rebound, once }) =>
      repeatAtHome(rows, once, async (home) => {
        const maybeKnown = again || home.repeated === true;
        if (rebound !== undefined)
          return hinting(hint, enqueueInOne(database, rows, { ...home, again: maybeKnown, rebound }));
        if (maybeKnown) return hinting(hint, enqueueJobs(database, rows, { ...home, again: true }));
        try {
          return await writeNew(rows, home);
        } catch (error) {
          // the ids are new: a pool that was given, or something on the way, has sent the statement twice
          if (!isIdTaken(error)) throw error;
          return hinting(hint, enqueueJobs(database, rows, { ...home, again: true }));
        }
      }),
    start: (rows, { once }) =>
      hinting(
        hint,
        repeatAtHome(rows, once, (home) => startFlows(database, rows, home.versions)),
      ),
    signal: (given) => repeat(() => signalFlow(database, given)),
    signalJob: (given) => repeat(() => signalJob(database, given)),
    // one for all calls that begin before it has ended, which go on in their order then
    check: () =>
      (checking ??= repeat(() => Promise.resolve()).finally(() => {
        checking = undefined;
      })),
  };
}

/** Tells of a transient error, after which the caller tries again by other means. */
async function onceTold<Result>(
  work: () => Promise<Result>,
  failed: (error: unknown, retryMs: number) => void,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (isTransient(error)) failed(error, 0);
    throw error;
  }
}

/** Writes in a transaction of the caller. Nothing is repeated: an error has aborted the transaction. */
export function writingWithin(
  target: Target,
  { verify, hint }: { readonly verify: Verify; readonly hint: (() => void) | undefined },
): WritePath {
  return {
    write: async (rows, options) => {
      await verify(target);
      return hinting(hint, enqueueBound(target, rows, options));
    },
    start: async (rows) => {
      await verify(target);
      return hinting(hint, startFlows(target, rows));
    },
    signal: async (given) => {
      await verify(target);
      return signalFlow(target, given);
    },
    signalJob: async (given) => {
      await verify(target);
      return signalJob(target, given);
    },
    check: async () => verify(target),
  };
}

/** The way of a producer without a database: each call tells what is missing. */
export const writingNowhere: WritePath = {
  write: () => Promise.reject(noDatabase('enqueue')),
  start: () => Promise.reject(noDatabase('enqueue')),
  signal: () => Promise.reject(noDatabase('enqueue')),
  signalJob: () => Promise.reject(noDatabase('enqueue')),
  check: () => Promise.reject(noDatabase('enqueue')),
};

/**
 * Parts of a try besides its rows. `versions`: of the routes of keys, as a router knew them when it chose the home.
 * `repeated`: an earlier try may have been accepted.
 */
type Home = Pick<EnqueueInput, 'versions' | 'repeated'>;

type BoundOptions = WriteOptions & Home;

function enqueueInOne(
  database: Database,
  rows: readonly JobRow[],
  options: BoundOptions,
): Promise<readonly Enqueued[]> {
  return database.transaction((client) =>
    enqueueBound({ ...fromPg(client), schema: database.schema }, rows, options),
  );
}

/**
 * Enqueues within a transaction. A payload that an older job is to take is written by a second statement, encoded for the id
 * of that job, which the transaction keeps locked; not if the job has an equal one already, and so keeps its state.
 */
async function enqueueBound(
  target: Target,
  rows: readonly JobRow[],
  { again, rebound, ...home }: BoundOptions,
): Promise<readonly Enqueued[]> {
  const enqueued = await enqueueJobs(target, rows, { again, bound: rebound !== undefined, ...home });
  if (rebound === undefined) return enqueued;
  const taken = takenOver(rows, enqueued).flatMap((one) => {
    const row = rebound(one);
    return row === undefined ? [] : [{ id: one.id, row }];
  });
  const written = await enqueueJobs(
    target,
    taken.map(({ row }) => row),
  );
  if (written.every(({ id }, index) => id === taken[index]?.id))
    return enqueued.map(({ id, outcome }) => ({ id, outcome }));
  throw new PgQueueError('invariant', 'a job was replaced by two jobs in one transaction');
}

/** Returns the older jobs that are to take a payload of these rows, with the index of that row: the last one counts. */
function takenOver(rows: readonly JobRow[], enqueued: readonly EnqueuedRow[]): readonly TakenOver[] {
  const last = new Map<string, TakenOver | undefined>();
  for (const [index, { id, outcome, stored }] of enqueued.entries()) {
    const { task, unique } = rows[index] as JobRow;
    if (unique === null || outcome === 'kept' || outcome === 'repeated') continue;
    const took = outcome === 'replaced' || outcome === 'debounced';
    last.set(JSON.stringify([task, unique.key]), took ? { index, id, stored } : undefined);
  }
  return [...last.values()].filter((one) => one !== undefined);
}

/** Adds to the refusal of jobs of another installation their ids, under which they are enqueued there, and `repeated`. */
async function telling<Result>(
  rows: readonly { readonly id: string }[],
  { repeated, writing }: { readonly repeated: boolean; readonly writing: Promise<Result> },
): Promise<Result> {
  try {
    return await writing;
  } catch (error) {
    if (!(error instanceof PgQueueError) || error.code !== 'moved') throw error;
    const data = { ...error.data, ids: rows.map(({ id }) => id), repeated };
    throw new PgQueueError('moved', error.message, { data, cause: error.cause });
  }
}

/** Sends a hint when jobs or flows were written. */
async function hinting<Written extends Pick<Enqueued | FlowStarted, 'outcome'>>(
  hint: (() => void) | undefined,
  writing: Promise<readonly Written[]>,
): Promise<readonly Written[]> {
  const written = await writing;
  if (written.some(({ outcome }) => outcome !== 'kept')) hint?.();
  return written;
}

/** Error of a producer that has no database of its own. `to`: the call that needs one. */
export function noDatabase(to: 'enqueue' | 'await results' | 'await flows'): PgQueueError {
  const other = to === 'enqueue' ? ', or enqueue through with(transaction)' : ` to ${to}`;
  return new PgQueueError(
    'configuration',
    `this producer has no database of its own: give connectionString or pool${other}`,
  );
}

/** With their hint, in one statement; or with what the next hint tells of them. */
async function enqueueHinted(
  database: Database,
  hints: Hints,
  rows: readonly JobRow[],
  given: Omit<Parameters<typeof enqueueAndHint>[2], 'notify'>,
): Promise<readonly Enqueued[]> {
  const notify = hints.ride();
  let hinted: HintedEnqueue = { sent: false };
  try {
    hinted = await enqueueAndHint(database, rows, { ...given, notify });
  } finally {
    if (notify) hints.rode(hinted.sent, hinted.jobs);
  }
  if (!notify) hints.send(hinted.jobs);
  return rows.map(({ id }) => ({ id, outcome: 'enqueued' }));
}
