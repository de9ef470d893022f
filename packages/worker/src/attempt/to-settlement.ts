import type { Ending } from '../lease/ending.ts';
import type { AbortReason, Backoff, Codec, ErrorData, Outcome, RetryOptions } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { backoffOf, errorData, isOutcome, retryDelayMs, unreachable } from '@pgqueue/core/internal';
import type { SettleRequest } from '@pgqueue/postgres/internal';
import { jobsJson } from '@pgqueue/postgres/internal';
import { encodedResult, isKeyMissing, keptError, keyDelayMs } from '../codec/encoding.ts';
import { ResultError } from '../lease/result.ts';
import { resultText } from '../lease/json.ts';

/** Request to the database after an attempt. `error` is for observers. */
export type Conclusion =
  | { readonly kind: 'settle'; readonly settlement: SettleRequest; readonly error?: unknown }
  | { readonly kind: 'release' }
  | { readonly kind: 'crash'; readonly why: string };

export interface EndingInput {
  readonly job: Pick<ClaimedJob, 'id' | 'task' | 'token' | 'tries' | 'retry'>;
  /** Encodes results, and errors that quote values; undefined: they are stored as they are. */
  readonly codec?: Codec | undefined;
  /** The task has a schema for results: a result that is too long once it is encoded fails the attempt. Default false. */
  readonly strict?: boolean;
  readonly ending: Ending;
  /** Retry policy of the task, for jobs without their own. */
  readonly retry: RetryOptions;
  /** Reason of the abort; undefined: the signal has not aborted. */
  readonly aborted: AbortReason | undefined;
  /** Random number for the jitter, 0 ≤ random < 1. */
  readonly random: number;
  /** Run time in milliseconds, stored with the error. */
  readonly ranMs?: number;
  /** Milliseconds that the job waited for a slot. Default 0. */
  readonly waitedMs?: number;
}

/**
 * Decides how an ended attempt is settled; the database has the last word on limits of tries. A cancelled job
 * ends as cancelled unless it is done. The job of a handler that throws after a shutdown or the node's fence
 * has aborted it is given back, and nothing is counted.
 */
export function conclude(input: EndingInput): Conclusion {
  const { aborted } = input;
  const conclusion = concludeFreely(input);
  if (conclusion.kind !== 'settle' || aborted !== 'cancelled') return conclusion;
  if (conclusion.settlement.outcome === 'done') return conclusion;
  return settle(input, { outcome: 'cancelled' });
}

function concludeFreely(input: EndingInput): Conclusion {
  const { ending, aborted } = input;
  switch (ending.kind) {
    case 'returned':
      if (isOutcome(ending.value)) return concludeOutcome(input, ending.value);
      // An Error that was returned by mistake instead of thrown.
      if (ending.value instanceof Error)
        return concludeFreely({ ...input, ending: { kind: 'threw', error: ending.value } });
      return done(input, ending.value);
    case 'fan_out':
      return done(input, ending.result, jobsJson(ending.rows));
    case 'threw': {
      if (isOutcome(ending.error)) return concludeOutcome(input, ending.error);
      if (aborted === 'shutdown' || aborted === 'node_silent') return { kind: 'release' };
      if (isKeyMissing(ending.error))
        return settle(input, { outcome: 'snooze', delayMs: keyDelayMs(input.random) });
      const data = { kind: 'error', ...storedError(ending.error) };
      const quotes = ending.error instanceof ResultError;
      return settle(input, { outcome: 'retry', data, quotes, delayMs: delayOf(input), error: ending.error });
    }
    case 'invalid': {
      const message = `the payload does not fit: ${ending.problems.join('; ')}`;
      return settle(input, {
        outcome: 'dead',
        data: { ...errorData(message), kind: 'invalid' },
        quotes: true,
        // The problems may quote the payload: they are stored with the job, but go into no log.
        error: 'the payload does not fit',
      });
    }
    case 'timeout': {
      const message = `it was not done within ${Math.round(ending.timeoutMs)} ms`;
      const data = { kind: 'timeout', name: 'TimeoutError', message };
      return settle(input, { outcome: 'retry', data, delayMs: delayOf(input), error: message });
    }
    case 'crashed':
      return { kind: 'crash', why: ending.why };
    default:
      return unreachable(ending);
  }
}

/** Returns an error as it is stored with the job: with the problems of a result that does not fit. */
function storedError(error: unknown): ErrorData {
  if (!(error instanceof ResultError)) return errorData(error);
  return { ...errorData(`${error.message}: ${error.problems.join('; ')}`), name: error.name };
}

/** Returns the delay before the next try, by the job's own retry policy, or its task's. */
function delayOf({ job, retry, random }: EndingInput): number {
  const backoff: Backoff = job.retry ?? backoffOf(retry);
  return retryDelayMs(backoff, job.tries + 1, random);
}

function concludeOutcome(input: EndingInput, outcome: Outcome): Conclusion {
  switch (outcome.kind) {
    case 'retry': {
      const data = { kind: 'error', ...errorData(outcome.error) };
      const delayMs = outcome.delayMs ?? delayOf(input);
      return settle(input, { outcome: 'retry', data, delayMs, error: outcome.error });
    }
    case 'give_up': {
      const data = { kind: 'error', ...errorData(outcome.error) };
      return settle(input, { outcome: 'dead', data, error: outcome.error });
    }
    case 'snooze':
      return settle(input, { outcome: 'snooze', delayMs: outcome.delayMs });
    case 'cancelled':
      return settle(input, { outcome: 'cancelled' });
    case 'fan_out':
      throw new PgQueueError('invariant', 'the jobs of a fanOut were not checked');
    default:
      return unreachable(outcome);
  }
}

/**
 * Settles the job as done, even if its result cannot be stored: its effects have happened, so it must not run
 * again. The history keeps the problem instead of the result.
 * @throws {ResultError} in place of that, if its task has a schema for results
 */
function done(
  { job, codec, strict = false, waitedMs = 0 }: EndingInput,
  value: unknown,
  jobs?: string,
): Conclusion {
  const { id, token } = job;
  const { text, problem: unsaid } = resultText(value);
  // Most handlers return nothing; then nothing is sent or stored.
  const { data, problem = unsaid } = encodedResult(codec, job, {
    text: text === 'null' ? null : text,
    strict,
  });
  const settlement: SettleRequest = { id, token, outcome: 'done', delayMs: null, data, waitedMs, jobs };
  if (problem === undefined) return { kind: 'settle', settlement };
  return { kind: 'settle', settlement, error: new Error(problem) };
}

function settle(
  { job, codec, ranMs, waitedMs = 0 }: EndingInput,
  end: {
    readonly outcome: SettleRequest['outcome'];
    readonly data?: object;
    /** The data quote values of the job: they are encoded, whatever the codec does with errors. */
    readonly quotes?: boolean;
    readonly delayMs?: number;
    readonly error?: unknown;
  },
): Conclusion {
  const { id, token } = job;
  const { outcome, data, quotes = false, delayMs = null, error } = end;
  const kept = ranMs === undefined ? data : data && { ...data, ms: Math.round(ranMs) };
  const stored = kept && keptError(codec, job, kept, quotes);
  const text = stored === undefined ? null : JSON.stringify(stored);
  const settlement: SettleRequest = { id, token, outcome, delayMs, data: text, waitedMs };
  return { kind: 'settle', settlement, ...(error === undefined ? {} : { error }) };
}
