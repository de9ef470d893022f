import { setTimeout as delay } from 'node:timers/promises';
import type { JobContext, JobLogger, Observer, TransactionClient } from '@pgqueue/core';
import { durationMs, PgQueueError, retryPauseMs } from '@pgqueue/core';
import type { Settlement, Target } from '@pgqueue/postgres';
import { extend, fromPg, isTransient, reportProgress, settle } from '@pgqueue/postgres';
import type { Attempt } from './attempt.ts';
import { AbortedError } from './attempt.ts';
import { lose } from './held.ts';
import { jsonText } from './json.ts';
import type { WorkerLogger } from './options.ts';
import type { Transactions } from './transaction.ts';

export interface ContextParts {
  /** For leases: its connections are never given to handlers. */
  readonly database: Target;
  readonly transactions: Transactions;
  readonly logger: WorkerLogger | undefined;
  readonly observe: Observer;
  /** A handler's own transaction has settled it as done. */
  readonly onCommitted: (attempt: Attempt) => void;
}

/** What a handler gets beside its payload; what most handlers don't ask for is made when they do. */
export function contextOf(parts: ContextParts, attempt: Attempt): JobContext {
  let job: JobContext['job'] | undefined;
  let log: JobLogger | undefined;
  return {
    get job() {
      return (job ??= jobOf(attempt));
    },
    get log() {
      return (log ??= loggerOf(parts.logger, attempt));
    },
    get signal() {
      return attempt.signal;
    },
    extend: async (by) => extendLease(parts, attempt, durationMs(by, 'extend')),
    progress: async (value) => showProgress(parts, attempt, jsonText(value)),
    transaction: async (work) => settleWith(parts, attempt, work),
  };
}

function jobOf(attempt: Attempt): JobContext['job'] {
  const { payload: _payload, token: _token, position: _position, ...job } = attempt.job;
  return job;
}

async function extendLease(parts: ContextParts, attempt: Attempt, ms: number): Promise<boolean> {
  const { id, token } = attempt.job;
  if (ms <= 0) throw new PgQueueError('configuration', 'extend: give a duration longer than 0');
  let sentAt = performance.now();
  const answer = await whileHeld(attempt, () => {
    sentAt = performance.now();
    return extend(parts.database, [{ id, token, ms }]);
  });
  if (answer === undefined) return false;
  const extended = answer.get(id);
  if (extended === undefined) {
    if (attempt.live) lose(attempt, { ...parts, during: 'extend' });
    return false;
  }
  attempt.extended(sentAt, ms);
  if (extended.cancelled) attempt.abort('cancelled');
  return true;
}

async function showProgress(parts: ContextParts, attempt: Attempt, progress: string): Promise<boolean> {
  const held = await whileHeld(attempt, () => reportProgress(parts.database, attempt.job, progress));
  if (held === false && attempt.live) lose(attempt, { ...parts, during: 'extend' });
  return held === true;
}

/** Repeats what met a transient error for as long as the lease is held; undefined: it is not any more. */
async function whileHeld<Result>(attempt: Attempt, work: () => Promise<Result>): Promise<Result | undefined> {
  for (let failures = 1; !attempt.over; failures += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error)) throw error;
      await delay(retryPauseMs(failures, 1_000));
    }
  }
  return undefined;
}

/** Done and the handler's writes commit together. A transaction that fails leaves the attempt as it was. */
async function settleWith<Result>(
  parts: ContextParts,
  attempt: Attempt,
  work: (client: TransactionClient) => Promise<Result>,
): Promise<Result> {
  const { id, token } = attempt.job;
  const done: Settlement = { id, token, outcome: 'done', delayMs: null, data: null };
  if (!attempt.live) throw attemptOver(attempt);
  const ran = await parts.transactions.run(work, async (client) => {
    if (!attempt.beginCommit()) throw attemptOver(attempt);
    const verdicts = await settle({ ...fromPg(queryable(client)), schema: parts.database.schema }, [done]);
    if (verdicts.has(id)) return;
    lose(attempt, { ...parts, during: 'settle' });
    throw new AbortedError('lease_lost');
  });
  const fate = ran.kind === 'unknown' ? await fateOf(parts, attempt, done) : ran.kind;
  if (fate === 'lost') {
    lose(attempt, { ...parts, during: 'settle' });
    throw new AbortedError('lease_lost');
  }
  if (fate === 'committed' && ran.kind !== 'rolled_back') {
    if (attempt.finish()) parts.onCommitted(attempt);
    return ran.value;
  }
  attempt.abandonCommit();
  throw ran.kind === 'committed' ? attemptOver(attempt) : ran.error;
}

/**
 * Whether a COMMIT that got no answer happened. A lease that is still held says no (to settle it here would end the job without
 * the handler's writes); one that is gone was settled by its token, or lost.
 */
async function fateOf(
  { database, observe }: ContextParts,
  attempt: Attempt,
  done: Settlement,
): Promise<'committed' | 'rolled_back' | 'lost'> {
  const { id, token } = done;
  for (let failures = 1; ; failures += 1) {
    try {
      const leftMs = Math.max(1, attempt.endsAt - performance.now());
      if ((await extend(database, [{ id, token, ms: leftMs }])).has(id)) return 'rolled_back';
      return (await settle(database, [done], true)).get(id) === 'repeated' ? 'committed' : 'lost';
    } catch (error) {
      if (!isTransient(error) || performance.now() > attempt.endsAt) return 'lost';
      const retryMs = retryPauseMs(failures, 1_000);
      observe({ type: 'database.error', during: 'commit', error, retryMs });
      await delay(retryMs);
    }
  }
}

function attemptOver(attempt: Attempt): Error {
  if (attempt.aborted !== undefined) return new AbortedError(attempt.aborted);
  return new Error('this attempt is over: ctx.transaction settles a job once');
}

function queryable(client: TransactionClient): Parameters<typeof fromPg>[0] {
  return {
    query: async (text, values = []) => {
      const { rows } = await client.query(text, values);
      return { rows: rows as unknown[] };
    },
  };
}

function loggerOf(logger: WorkerLogger | undefined, { job }: Attempt): JobLogger {
  if (logger === undefined) return silent;
  const bindings = { job: job.id, task: job.task, try: job.tries + 1 };
  if (logger.child !== undefined) return logger.child(bindings);
  return {
    debug: (data, message) => logger.debug({ ...bindings, ...data }, message),
    info: (data, message) => logger.info({ ...bindings, ...data }, message),
    warn: (data, message) => logger.warn({ ...bindings, ...data }, message),
    error: (data, message) => logger.error({ ...bindings, ...data }, message),
  };
}

const silent: JobLogger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
