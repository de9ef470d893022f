import { setTimeout as delay } from 'node:timers/promises';
import type { Codec, JobLogger, Observer, Settle, TransactionClient } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';
import { retryPauseMs } from '@pgqueue/core/internal';
import type { Executor } from '@pgqueue/postgres';
import type { SettleRequest, Target } from '@pgqueue/postgres/internal';
import {
  extend,
  fromPg,
  isTransient,
  reportProgressOfAll,
  settle,
  settleWithin,
} from '@pgqueue/postgres/internal';
import type { Attempt, OpenTransaction } from './attempt.ts';
import { encodedProgress } from '../codec/encoding.ts';
import { AbortedError } from '../lease/timing.ts';
import { lose } from '../lease/held-leases.ts';
import type { WorkerLogger } from '../options.ts';
import { runOwn } from './transaction/own-transaction.ts';
import type { Ran, Transactions } from './transaction/transaction.ts';

export interface LeaseParts {
  /** Connections for statements about leases; they are never given to handlers. */
  readonly database: Target;
  readonly transactions: Transactions;
  /** Encodes what is stored of jobs; undefined: it is stored as it is. */
  readonly codec: Codec | undefined;
  readonly logger: WorkerLogger | undefined;
  readonly observe: Observer;
  /** Called when a handler's own transaction has settled the job as done. */
  readonly onCommitted: (attempt: Attempt) => void;
  /** Called when a wait of a handler has ended the attempt: its job is suspended, or was cancelled. */
  readonly onSuspended: (attempt: Attempt, verdict: 'snooze' | 'cancelled') => void;
  /** Called when a handler has added jobs. */
  readonly onAdded: (rows: readonly JobRow[]) => void;
}

/** Attempts of one handler call: of one job, or of the jobs of a bundle. */
export type Attempts = readonly Attempt[];

/** Takes the batches of these attempts apart: a statement about a single job needs a row of its own. */
export async function ownRows(attempts: Attempts): Promise<void> {
  for (const { batch } of attempts) await batch?.apart();
}

/**
 * Moves the ends of the leases to `ms` from now. Attempts whose leases were lost are aborted. False: all
 * leases were lost.
 * @throws {PgQueueError} `configuration`: `ms` is not positive
 */
export async function extendLeases(parts: LeaseParts, attempts: Attempts, ms: number): Promise<boolean> {
  if (ms <= 0) throw new PgQueueError('configuration', 'extend: give a duration longer than 0');
  await ownRows(attempts);
  let sentAt = performance.now();
  const answer = await whileHeld(attempts, (held) => {
    sentAt = performance.now();
    return extend(
      parts.database,
      held.map(({ job: { id, token } }) => ({ id, token, ms })),
    );
  });
  if (answer === undefined) return false;
  const { asked, given } = answer;
  for (const attempt of asked) {
    const extended = given.get(attempt.job.id);
    if (extended === undefined) {
      if (attempt.live) lose(attempt, { ...parts, during: 'extend' });
      continue;
    }
    attempt.extended(sentAt, ms);
    if (extended.cancelled) attempt.abort('cancelled');
  }
  return given.size > 0;
}

/**
 * Writes the progress of each job. Attempts whose leases were lost are aborted. False: all leases were lost.
 */
export async function showProgress(
  parts: LeaseParts,
  attempts: Attempts,
  progress: string,
): Promise<boolean> {
  await ownRows(attempts);
  const answer = await whileHeld(attempts, (held) => {
    const shown = held.map(({ lease }) => ({
      ...lease,
      progress: encodedProgress(parts.codec, lease, progress),
    }));
    return reportProgressOfAll(parts.database, shown);
  });
  if (answer === undefined) return false;
  for (const attempt of answer.asked) {
    if (attempt.live && !answer.given.has(attempt.job.id)) lose(attempt, { ...parts, during: 'extend' });
  }
  return answer.given.size > 0;
}

/**
 * Repeats `work` after transient errors while any lease is held. Undefined: none is held any more. `again`: an earlier try
 * may have been accepted.
 */
export async function whileHeld<Given>(
  attempts: Attempts,
  work: (held: Attempts, again: boolean) => Promise<Given>,
  retrying?: (error: unknown, retryMs: number) => void,
): Promise<{ readonly asked: Attempts; readonly given: Given } | undefined> {
  for (let failures = 1; ; failures += 1) {
    const asked = attempts.filter(({ over }) => !over);
    if (asked.length === 0) return undefined;
    try {
      return { asked, given: await work(asked, failures > 1) };
    } catch (error) {
      if (!isTransient(error)) throw error;
      if (asked.every(({ over, endsAt }) => over || performance.now() > endsAt)) return undefined;
      const retryMs = retryPauseMs(failures, 1_000);
      retrying?.(error, retryMs);
      await delay(retryMs);
    }
  }
}

/**
 * Bounds for the idle timeout of a transaction that has settled jobs, which otherwise lasts until the lease
 * ends.
 */
const idleMinMs = 1_000;
const idleMaxMs = 60_000;

type Results = readonly (string | null)[];

/**
 * Returns the results that a transaction settles its jobs with, in their order and as they are stored; null: no result.
 * A promise only when a schema returns one.
 */
export type ResultsOf = (value: unknown) => Results | Promise<Results>;

/**
 * Runs `work` and settles all of these jobs as done in one transaction: the handler's writes and the
 * settlements commit together or not at all. A transaction that fails leaves the jobs as they were.
 * `results`: makes the results of the value of `work`; undefined: the jobs have none.
 */
export async function settleWith<Value>(
  parts: LeaseParts,
  attempts: Attempts,
  {
    work,
    results,
  }: {
    readonly work: (client: TransactionClient) => Promise<Value>;
    readonly results: ResultsOf | undefined;
  },
): Promise<Value> {
  return within('ctx.transaction', attempts, () =>
    commitWith(parts, attempts, (seal) =>
      parts.transactions.run(work, async (client, value) =>
        seal(fromPg(queryable(client)), await results?.(value)),
      ),
    ),
  );
}

/** Like {@link settleWith}, in a transaction that the handler's own library runs. */
export function settleIn(
  parts: LeaseParts,
  attempts: Attempts,
  { run, results }: { readonly run: (settle: Settle) => Promise<unknown>; readonly results: ResultsOf },
): Promise<void> {
  const leftMs = (): number => endOf(attempts) - performance.now();
  return within('ctx.settleIn', attempts, () =>
    commitWith(parts, attempts, (seal) => {
      // not async: the statement of a settle that nobody awaits is sent before the COMMIT
      const sealed = (executor: Executor, result: unknown): Promise<void> => {
        const made = results(result);
        return made instanceof Promise ? made.then((one) => seal(executor, one)) : seal(executor, made);
      };
      return runOwn(run, { seal: sealed, leftMs });
    }),
  );
}

/** Records a transaction with its attempts while it runs. */
async function within<Result>(
  by: OpenTransaction['by'],
  attempts: Attempts,
  run: () => Promise<Result>,
): Promise<Result> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const transaction = { by, ended: promise };
  for (const attempt of attempts) attempt.opened(transaction);
  try {
    return await run();
  } finally {
    for (const attempt of attempts) attempt.closed(transaction);
    resolve();
  }
}

async function commitWith<Result>(
  parts: LeaseParts,
  attempts: Attempts,
  run: (seal: (executor: Executor, results?: Results) => Promise<void>) => Promise<Ran<Result>>,
): Promise<Result> {
  let done = doneWith(attempts, []);
  throwOver(attempts);
  await ownRows(attempts);
  let begun = false;
  const ran = await run(async (executor, results = []) => {
    done = doneWith(attempts, results);
    if (!begun || attempts.some(({ over }) => over)) throwOver(attempts);
    for (const attempt of attempts) attempt.beginCommit();
    const again = begun;
    begun = true;
    const idleMs = Math.min(idleMaxMs, Math.max(idleMinMs, endOf(attempts) - performance.now()));
    const verdicts = await settleWithin({ ...executor, schema: parts.database.schema }, done, idleMs);
    const lost = attempts.filter(({ job }) => !verdicts.has(job.id));
    // settled just before, in this transaction, or lost: the settlement of the failed attempt finds out
    if (again && lost.length > 0) throw new PgQueueError('configuration', calledTwice);
    for (const attempt of lost) lose(attempt, { ...parts, during: 'settle' });
    if (lost.length > 0) throw new AbortedError('lease_lost');
  });
  const fate = await fateOf(parts, attempts, { done, ran });
  if (fate === 'lost') {
    for (const attempt of attempts) lose(attempt, { ...parts, during: 'settle' });
    throw new AbortedError('lease_lost');
  }
  if (fate === 'committed' && ran.kind !== 'rolled_back') {
    for (const attempt of attempts) {
      if (!attempt.finish()) continue;
      attempt.committed = true;
      parts.onCommitted(attempt);
    }
    return ran.value;
  }
  for (const attempt of attempts) attempt.abandonCommit();
  throw 'error' in ran ? ran.error : new Error('the transaction that settled the job did not commit');
}

function doneWith(attempts: Attempts, results: Results): readonly SettleRequest[] {
  return attempts.map(({ job, waitedMs }, index) => {
    const data = results[index] ?? null;
    return { id: job.id, token: job.token, outcome: 'done', delayMs: null, data, waitedMs };
  });
}

/**
 * Finds out if a COMMIT without a reply took effect, for all of its jobs or none. A lease that can still be
 * extended means that it did not; settling the job here would end it without the handler's writes. If all
 * leases are gone, the jobs were settled under their tokens, or lost. For an `unconfirmed` commit the
 * library's word is enough once the leases are gone: the queue may not keep a trace of the settlement to look
 * for.
 */
async function fateOf<Result>(
  { database, observe }: LeaseParts,
  attempts: Attempts,
  { done, ran }: { readonly done: readonly SettleRequest[]; readonly ran: Ran<Result> },
): Promise<'committed' | 'rolled_back' | 'lost'> {
  if (ran.kind === 'committed' || ran.kind === 'rolled_back') return ran.kind;
  const believed = ran.kind === 'unconfirmed';
  const endsAt = endOf(attempts);
  for (let failures = 1; ; failures += 1) {
    try {
      const ms = Math.max(1, endsAt - performance.now());
      const leases = done.map(({ id, token }) => ({ id, token, ms }));
      if ((await extend(database, leases)).size > 0) return 'rolled_back';
      if (believed) return 'committed';
      const verdicts = await settle(database, done, { repeat: true });
      return [...verdicts.values()].includes('repeated') ? 'committed' : 'lost';
    } catch (error) {
      if (!isTransient(error) || performance.now() > endsAt) return believed ? 'committed' : 'lost';
      const retryMs = retryPauseMs(failures, 1_000);
      observe({ type: 'database.error', during: 'commit', error, retryMs });
      await delay(retryMs);
    }
  }
}

/** Earliest end of these leases, by the node's monotonic clock. */
function endOf(attempts: Attempts): number {
  return Math.min(...attempts.map(({ endsAt }) => endsAt));
}

/** Throws if any of the attempts is over, or is being settled. */
export function throwOver(attempts: Attempts): void {
  const left = attempts.find(({ leftOpen }) => leftOpen !== undefined)?.leftOpen;
  if (left !== undefined) throw left;
  if (attempts.some(({ live }) => !live)) throw overError(attempts);
}

const settledOnce =
  'a transaction of its handler has settled this job as done, and a job is settled once: put all writes into that transaction';

const calledTwice =
  'ctx.settleIn: settle was called again, and there was nothing left to settle: call it once in a transaction';

/** Returns the error of a call whose attempts are over. */
export function overError(attempts: Attempts): Error {
  const suspended = attempts.find((attempt) => attempt.suspended !== undefined)?.suspended;
  if (suspended !== undefined) return suspended;
  const aborted = attempts.find((attempt) => !attempt.live && attempt.aborted !== undefined)?.aborted;
  if (aborted !== undefined) return new AbortedError(aborted);
  if (attempts.some(({ committed }) => committed)) return new PgQueueError('configuration', settledOnce);
  return new Error('this attempt is over: its job is settled');
}

function queryable(client: TransactionClient): Parameters<typeof fromPg>[0] {
  return {
    query: async (text, values = []) => {
      const { rows } = await client.query(text, values);
      return { rows: rows as unknown[] };
    },
  };
}

/** Returns a logger that adds `bindings` to each line. */
export function loggerWith(logger: WorkerLogger | undefined, bindings: object): JobLogger {
  if (logger === undefined) return silent;
  if (logger.child !== undefined) return logger.child(bindings);
  return {
    debug: (data, message) => logger.debug({ ...bindings, ...data }, message),
    info: (data, message) => logger.info({ ...bindings, ...data }, message),
    warn: (data, message) => logger.warn({ ...bindings, ...data }, message),
    error: (data, message) => logger.error({ ...bindings, ...data }, message),
  };
}

const silent: JobLogger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
