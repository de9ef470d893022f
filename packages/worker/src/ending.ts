import type { AbortReason, Backoff, ClaimedJob, RetryOptions } from '@pgqueue/core';
import { backoffOf, errorData, isOutcome, retryDelayMs, unreachable } from '@pgqueue/core';
import type { Settlement } from '@pgqueue/postgres';
import { resultText } from './json.ts';

/** How an attempt ended, as its node sees it. */
export type Ending =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] }
  | { readonly kind: 'timeout'; readonly timeoutMs: number }
  /** What it ran in died, and the node did not. */
  | { readonly kind: 'crashed'; readonly why: string };

/** What is asked of the database for it; `error` is for observers. */
export type Conclusion =
  | { readonly kind: 'settle'; readonly settlement: Settlement; readonly error?: unknown }
  | { readonly kind: 'release' }
  | { readonly kind: 'crash'; readonly why: string };

export interface EndingInput {
  readonly job: Pick<ClaimedJob, 'id' | 'token' | 'tries' | 'retry'>;
  readonly ending: Ending;
  /** What the task says of retries, for jobs that say nothing. */
  readonly retry: RetryOptions;
  /** Why the signal aborted, if it did. */
  readonly aborted: AbortReason | undefined;
  /** 0 ≤ random < 1, for the jitter. */
  readonly random: number;
}

/**
 * What to ask for when an attempt has ended; the database has the last word on limits of tries. A cancelled job ends as
 * cancelled unless it got done; what a shutdown interrupted, or the node's own fence, is given back, and counts nothing.
 */
export function conclude(input: EndingInput): Conclusion {
  const { job, aborted } = input;
  const conclusion = concludeFreely(input);
  if (conclusion.kind !== 'settle' || aborted !== 'cancelled') return conclusion;
  if (conclusion.settlement.outcome === 'done') return conclusion;
  return settle(job, { outcome: 'cancelled' });
}

function concludeFreely({ job, ending, retry, aborted, random }: EndingInput): Conclusion {
  const backoff: Backoff = job.retry ?? backoffOf(retry);
  const delayMs = retryDelayMs(backoff, job.tries + 1, random);
  switch (ending.kind) {
    case 'returned':
      if (isOutcome(ending.value)) return concludeOutcome(job, ending.value, delayMs);
      return done(job, ending.value);
    case 'threw': {
      if (isOutcome(ending.error)) return concludeOutcome(job, ending.error, delayMs);
      if (aborted === 'shutdown' || aborted === 'node_lost') return { kind: 'release' };
      const data = { kind: 'error', ...errorData(ending.error) };
      return settle(job, { outcome: 'retry', data, delayMs, error: ending.error });
    }
    case 'invalid': {
      const message = `the payload does not fit: ${ending.problems.join('; ')}`;
      return settle(job, {
        outcome: 'dead',
        data: { ...errorData(message), kind: 'invalid' },
        error: 'the payload does not fit', // what is wrong may quote it: that is kept with the job, and goes into no log
      });
    }
    case 'timeout': {
      const message = `it was not done within ${Math.round(ending.timeoutMs)} ms`;
      const data = { kind: 'timeout', name: 'TimeoutError', message };
      return settle(job, { outcome: 'retry', data, delayMs, error: message });
    }
    case 'crashed':
      return { kind: 'crash', why: ending.why };
    default:
      return unreachable(ending);
  }
}

function concludeOutcome(job: EndingInput['job'], outcome: unknown, policyDelayMs: number): Conclusion {
  if (!isOutcome(outcome)) return done(job, outcome);
  switch (outcome.kind) {
    case 'retry': {
      const data = { kind: 'error', ...errorData(outcome.error) };
      const delayMs = outcome.delayMs ?? policyDelayMs;
      return settle(job, { outcome: 'retry', data, delayMs, error: outcome.error });
    }
    case 'give_up': {
      const data = { kind: 'error', ...errorData(outcome.error) };
      return settle(job, { outcome: 'dead', data, error: outcome.error });
    }
    case 'snooze':
      return settle(job, { outcome: 'snooze', delayMs: outcome.delayMs });
    case 'cancelled':
      return settle(job, { outcome: 'cancelled' });
    default:
      return unreachable(outcome);
  }
}

/** Its effects have happened, so a result that can't be stored does not run it again: the history says what was wrong. */
function done(job: EndingInput['job'], value: unknown): Conclusion {
  const { text, problem } = resultText(value);
  const { id, token } = job;
  const settlement: Settlement = { id, token, outcome: 'done', delayMs: null, data: text };
  return { kind: 'settle', settlement, ...(problem === undefined ? {} : { error: new Error(problem) }) };
}

function settle(
  { id, token }: EndingInput['job'],
  end: {
    readonly outcome: Settlement['outcome'];
    readonly data?: object;
    readonly delayMs?: number;
    readonly error?: unknown;
  },
): Conclusion {
  const { outcome, data, delayMs = null, error } = end;
  const text = data === undefined ? null : JSON.stringify(data);
  const settlement: Settlement = { id, token, outcome, delayMs, data: text };
  return { kind: 'settle', settlement, ...(error === undefined ? {} : { error }) };
}
