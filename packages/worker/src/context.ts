import { setTimeout as delay } from 'node:timers/promises';
import type { JobContext, JobLogger, TransactionClient } from '@pgqueue/core';
import { durationMs, PgQueueError, retryPauseMs } from '@pgqueue/core';
import type { Database, Settlement } from '@pgqueue/postgres';
import { extend, isTransient, reportProgress, settle } from '@pgqueue/postgres';
import type { Attempt, Attempts } from './attempts.ts';
import { AbortedError } from './attempts.ts';
import type { WorkerLogger } from './options.ts';
import { jsonText } from './settlements.ts';

export interface ContextParts {
  /** For leases: its connections are never given to handlers. */
  readonly control: Database;
  /** For handlers' transactions. */
  readonly handlers: () => Database;
  readonly attempts: Attempts;
  readonly logger: WorkerLogger | undefined;
}

/** What a handler gets beside its payload. */
export function contextOf(parts: ContextParts, attempt: Attempt): JobContext {
  const { payload: _payload, token, position: _position, ...job } = attempt.job;
  return {
    job,
    signal: attempt.signal,
    log: loggerOf(parts.logger, attempt),
    extend: async (by) => extendLease(parts, attempt, durationMs(by, 'extend')),
    progress: async (value) => {
      const text = jsonText(value) ?? 'null';
      const held = await persistently(attempt, () =>
        reportProgress(parts.control, { id: job.id, token }, text),
      );
      if (!held) parts.attempts.lose(job.id, 'extend');
      return held;
    },
    transaction: async (work) => inTransaction(parts, attempt, work),
  };
}

async function extendLease(
  { control, attempts }: ContextParts,
  attempt: Attempt,
  ms: number,
): Promise<boolean> {
  const { id, token } = attempt.job;
  if (ms <= 0) throw new PgQueueError('configuration', 'extend: give a duration longer than 0');
  let asked = performance.now();
  const answer = await persistently(attempt, () => {
    asked = performance.now();
    return extend(control, [{ id, token, ms }]);
  });
  const extended = answer.get(id);
  if (extended === undefined) {
    attempts.lose(id, 'extend');
    return false;
  }
  attempt.leaseUntil(asked + ms);
  if (extended.cancelled) attempt.abort('cancelled');
  return true;
}

/** Repeats what met a transient error, as long as the attempt goes on. */
async function persistently<Result>(attempt: Attempt, work: () => Promise<Result>): Promise<Result> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error) || attempt.signal.aborted) throw error;
      await delay(retryPauseMs(failures, 1_000), undefined, { signal: attempt.signal }).catch(() => {});
    }
  }
}

async function inTransaction<Result>(
  { handlers, control, attempts }: ContextParts,
  attempt: Attempt,
  work: (client: TransactionClient) => Promise<Result>,
): Promise<Result> {
  const { id, token } = attempt.job;
  const done: Settlement = { id, token, outcome: 'done', delayMs: null, data: null };
  const lost = (): never => {
    attempts.lose(id, 'settle');
    throw new AbortedError('lease_lost');
  };
  let committed: { readonly value: Result } | undefined;
  try {
    const result = await handlers().transaction(async (client) => {
      const value = await work(client);
      const target = {
        schema: control.schema,
        query: async <Row>(text: string, values: readonly unknown[]) =>
          (await client.query(text, [...values])).rows as Row[],
      };
      const verdicts = await settle(target, [{ ...done, data: jsonText(value) }]);
      if (!verdicts.has(id)) return lost();
      committed = { value };
      return committed;
    });
    attempt.takeSettlement();
    return result.value;
  } catch (error) {
    // the reply to COMMIT may have been lost: the token tells whether it was accepted
    if (committed !== undefined && (await wasAccepted(control, attempt, done))) {
      attempt.takeSettlement();
      return committed.value;
    }
    throw error;
  }
}

/**
 * Whether a settlement whose COMMIT got no answer was accepted. A lease that is still held says no (settling it here would end
 * the job without the handler's writes); one that is gone was settled by its token, or lost.
 */
async function wasAccepted(control: Database, attempt: Attempt, done: Settlement): Promise<boolean> {
  return persistently(attempt, async () => {
    const ms = attempt.job.leaseMs;
    if ((await extend(control, [{ id: done.id, token: done.token, ms }])).has(done.id)) return false;
    return (await settle(control, [done], true)).get(done.id) === 'repeated';
  });
}

function loggerOf(logger: WorkerLogger | undefined, { job }: Attempt): JobLogger {
  if (logger === undefined) return silent;
  return logger.child?.({ job: job.id, task: job.task, try: job.tries + 1 }) ?? logger;
}

const silent: JobLogger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
