import type { Duration } from '../options/duration.ts';
import { durationMs } from '../options/duration.ts';

const brand: unique symbol = Symbol.for('pgqueue.outcome');

/**
 * How an attempt ended, when not by a plain result or an error. A handler returns one, or throws it from deeper down.
 * A plain return value is *done* with that result; a thrown error is *retry* by the job's policy.
 */
export type Outcome = { readonly [brand]: true } & (
  | { readonly kind: 'retry'; readonly delayMs: number | null; readonly error: unknown }
  | { readonly kind: 'give_up'; readonly error: unknown }
  | { readonly kind: 'snooze'; readonly delayMs: number }
  | { readonly kind: 'cancelled' }
);

/** Try again, after the given delay instead of the policy's; counts a try. The error is kept with the job. */
export function retryAfter(
  delay: Duration | null,
  error: unknown = 'the handler asked for another try, and gave no reason',
): Outcome {
  return {
    [brand]: true,
    kind: 'retry',
    delayMs: delay === null ? null : durationMs(delay, 'delay'),
    error,
  };
}

/** Don't try again: dead letter, reason `gave_up`. The error is kept with the job. */
export function giveUp(error: unknown = 'the handler gave up, and gave no reason'): Outcome {
  return { [brand]: true, kind: 'give_up', error };
}

/** Run again later without counting a try. */
export function snooze(delay: Duration): Outcome {
  return { [brand]: true, kind: 'snooze', delayMs: durationMs(delay, 'delay') };
}

/** End it here, as cancelled. */
export function cancelled(): Outcome {
  return { [brand]: true, kind: 'cancelled' };
}

/** Whether a value is one of the outcomes above, rather than a plain result. */
export function isOutcome(value: unknown): value is Outcome {
  try {
    return typeof value === 'object' && value !== null && brand in value;
  } catch {
    return false; // a proxy that does not want to be asked
  }
}
