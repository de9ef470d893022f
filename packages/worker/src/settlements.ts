import type { AbortReason, Backoff, ClaimedJob, RetryOptions } from '@pgqueue/core';
import { backoffOf, errorData, isOutcome, retryDelayMs, unreachable } from '@pgqueue/core';
import type { Settlement } from '@pgqueue/postgres';

/** How a handler's run ended. */
export type Ended =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] }
  | { readonly kind: 'timeout'; readonly timeoutMs: number };

export interface SettlementInput {
  readonly job: Pick<ClaimedJob, 'id' | 'token' | 'tries' | 'retry'>;
  readonly ended: Ended;
  /** What the task says of retries, for jobs that say nothing. */
  readonly retry: RetryOptions;
  /** Why the signal aborted, if it did. */
  readonly aborted: AbortReason | undefined;
  /** 0 ≤ random < 1, for the jitter. */
  readonly random: number;
}

/** What the node asks for when an attempt has ended; the database has the last word on limits of tries. */
export function settlementOf({ job, ended, retry, aborted, random }: SettlementInput): Settlement {
  const settle = (
    outcome: Settlement['outcome'],
    data: unknown,
    delayMs: number | null = null,
  ): Settlement => ({
    id: job.id,
    token: job.token,
    outcome,
    delayMs,
    data: data === undefined ? null : jsonText(data),
  });
  const backoff: Backoff = job.retry ?? backoffOf(retry);
  const policyDelayMs = retryDelayMs(backoff, job.tries + 1, random);
  const failed = (error: unknown): Settlement => {
    if (isOutcome(error)) return asked(error);
    if (aborted === 'cancelled') return settle('cancelled', undefined);
    return settle('retry', { kind: 'error', ...errorData(error) }, policyDelayMs);
  };
  const asked = (outcome: unknown): Settlement => {
    if (!isOutcome(outcome)) return returned(outcome);
    switch (outcome.kind) {
      case 'retry':
        return settle(
          'retry',
          { kind: 'error', ...errorData(outcome.error) },
          outcome.delayMs ?? policyDelayMs,
        );
      case 'give_up':
        return settle('dead', { kind: 'error', ...errorData(outcome.error) });
      case 'snooze':
        return settle('snooze', undefined, outcome.delayMs);
      case 'cancelled':
        return settle('cancelled', undefined);
      default:
        return unreachable(outcome);
    }
  };
  const returned = (value: unknown): Settlement => {
    try {
      return settle('done', value);
    } catch (error) {
      return failed(new Error('the handler returned a value that is no JSON', { cause: error }));
    }
  };
  switch (ended.kind) {
    case 'returned':
      return asked(ended.value);
    case 'threw':
      return failed(ended.error);
    case 'invalid':
      return settle('dead', {
        kind: 'invalid',
        message: `payload: ${ended.problems.join('; ')}`.slice(0, 2_000),
      });
    case 'timeout':
      return settle(
        'retry',
        { kind: 'timeout', message: `not done within ${ended.timeoutMs} ms` },
        policyDelayMs,
      );
    default:
      return unreachable(ended);
  }
}

/** JSON text that jsonb takes: NUL and lone surrogates, which it refuses, are left out. */
export function jsonText(value: unknown): string | null {
  const text = JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'string' ? inner.replaceAll('\u0000', '').toWellFormed() : inner,
  ) as string | undefined;
  return text ?? null;
}
