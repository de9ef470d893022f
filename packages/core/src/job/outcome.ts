import type { Duration } from '../options/duration.ts';
import { durationMs } from '../options/duration.ts';
import type { NewJob } from './job.ts';

const brand: unique symbol = Symbol.for('pgqueue.outcome');

/**
 * End of an attempt other than a plain result or an error. A handler returns an outcome, or throws it from
 * deeper down. A plain return value is *done* with that result; a thrown error is *retry* by the job's
 * policy. `Result`: type of the result that {@link fanOut} was given; left out, it is any.
 */
// oxlint-disable-next-line typescript/no-explicit-any
export type Outcome<Result = any> = { readonly [brand]: true } & (
  | { readonly kind: 'retry'; readonly delayMs: number | null; readonly error: unknown }
  | { readonly kind: 'give_up'; readonly error: unknown }
  | { readonly kind: 'snooze'; readonly delayMs: number }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'fan_out'; readonly jobs: readonly NewJob[]; readonly result: Result }
);

/**
 * Ends the attempt with another try after `delay`, or after the policy's delay when that is null. Counts a
 * try. The error is kept with the job.
 */
export function retryAfter(
  delay: Duration | null,
  error: unknown = 'the handler asked for another try, and gave no reason',
): Outcome<never> {
  return {
    [brand]: true,
    kind: 'retry',
    delayMs: delay === null ? null : durationMs(delay, 'delay'),
    error,
  };
}

/**
 * Ends the job without another try: it goes to the dead letter with the reason `gave_up`. The error is kept
 * with the job.
 */
export function giveUp(error: unknown = 'the handler gave up, and gave no reason'): Outcome<never> {
  return { [brand]: true, kind: 'give_up', error };
}

/** Runs the job again after `delay`, without counting a try. */
export function snooze(delay: Duration): Outcome<never> {
  return { [brand]: true, kind: 'snooze', delayMs: durationMs(delay, 'delay') };
}

/** Ends the job as cancelled. */
export function cancelled(): Outcome<never> {
  return { [brand]: true, kind: 'cancelled' };
}

/** Ends the job as done, without a result, and adds jobs to its step: as with a result. */
export function fanOut(jobs: readonly NewJob[]): Outcome<undefined>;
/**
 * Ends the job as done, and adds jobs to its step, in one transaction: so each attempt that ends like this adds
 * them exactly once. The step goes on until they have ended. A job in no flow just enqueues them. The jobs are
 * checked as those of `ctx.addJobs` are; if one of them can't be enqueued, the attempt fails, and nothing is
 * added. A handler of bundles returns one for each job.
 * @param jobs up to 50,000
 * @param result result of this job, by the schema of its task, if there is one
 */
export function fanOut<Result>(jobs: readonly NewJob[], result: Result): Outcome<Result>;
export function fanOut(jobs: readonly NewJob[], result?: unknown): Outcome<unknown> {
  return { [brand]: true, kind: 'fan_out', jobs, result };
}

/** Reports whether a value is an {@link Outcome}, rather than a plain result. */
export function isOutcome(value: unknown): value is Outcome<unknown> {
  try {
    return typeof value === 'object' && value !== null && brand in value;
  } catch {
    return false; // a proxy whose trap throws
  }
}
