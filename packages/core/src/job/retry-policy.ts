import type { Duration } from '../options/duration.ts';
import { parseDuration } from '../options/duration.ts';
import type { Shape } from '../options/options.ts';
import { aDuration, aNumber, oneOf, optional, optionProblems } from '../options/options.ts';

/**
 * Limits and delays of the retries of a job. An option that is left out comes from the task, then from
 * the default. A job that says nothing of its delays has those of its worker's task.
 */
export interface RetryOptions {
  /** Attempts that may run to an error before the job is dead, 1 to 1000. Default 20. */
  readonly maxTries?: number;
  /** Leases that may be lost with their node (crash, hang) before the job is dead, 1 to 1000. Default 3. */
  readonly maxCrashes?: number;
  /** Growth of the delay: the same each time, base × try, or base × factor^(try − 1). Default exponential. */
  readonly backoff?: 'fixed' | 'linear' | 'exponential';
  /** The first delay. Default 1 s. */
  readonly base?: Duration;
  /** Growth of the exponential backoff, at least 1. Default 2. */
  readonly factor?: number;
  /** The longest delay. Default 1 h. */
  readonly max?: Duration;
  /** Random share of the delay, 0 to 1: 0.2 shortens it by up to a fifth. Default 0.2. */
  readonly jitter?: number;
}

/** A backoff as stored with a job (column `retry`) and read by the SQL function `backoff_ms`. */
export interface Backoff {
  readonly kind: 'fixed' | 'linear' | 'exponential';
  readonly baseMs: number;
  readonly factor: number;
  readonly maxMs: number;
  readonly jitter: number;
}

/** Attempts that may run to an error, unless the task or the enqueue sets another number. */
export const defaultMaxTries = 20;
/** Leases that may be lost with their node, unless the task or the enqueue sets another number. */
export const defaultMaxCrashes = 3;

/**
 * Delay of 1 s that doubles up to 1 h, shortened by up to a fifth. With 20 tries, the delays add up to
 * between 6.5 and 8.1 hours.
 */
export const defaultBackoff: Backoff = {
  kind: 'exponential',
  baseMs: 1_000,
  factor: 2,
  maxMs: 3_600_000,
  jitter: 0.2,
};

/** Returns the backoff for some options. An option that is left out comes from `fallback`. */
export function backoffOf(retry: RetryOptions, fallback: Backoff = defaultBackoff): Backoff {
  return {
    kind: retry.backoff ?? fallback.kind,
    baseMs: parseDuration(retry.base) ?? fallback.baseMs,
    factor: retry.factor ?? fallback.factor,
    maxMs: parseDuration(retry.max) ?? fallback.maxMs,
    jitter: retry.jitter ?? fallback.jitter,
  };
}

/** Returns the backoff to store with a job. Null: it has none of its own, and that of its worker's task holds. */
export function ownBackoff(retry: RetryOptions = {}): Backoff | null {
  const { backoff, base, factor, max, jitter } = retry;
  const parts = [backoff, base, factor, max, jitter];
  return parts.every((part) => part === undefined) ? null : backoffOf(retry);
}

/** Replaces unusable parts of a backoff by defaults: jobs from plain SQL may bring any JSON object. */
function soundBackoff(given: Partial<Backoff>): Backoff {
  const amount = (name: 'baseMs' | 'factor' | 'maxMs' | 'jitter'): number => {
    const value: unknown = given[name];
    return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : defaultBackoff[name];
  };
  const kind = given.kind === 'fixed' || given.kind === 'linear' ? given.kind : 'exponential';
  return {
    kind,
    baseMs: amount('baseMs'),
    factor: amount('factor'),
    maxMs: amount('maxMs'),
    jitter: Math.min(1, amount('jitter')),
  };
}

/**
 * Returns the milliseconds until the next attempt. Missing or unusable parts of the backoff come from
 * the default.
 * @param tryNumber number of the attempt that just failed, from 1
 * @param random 0 ≤ random < 1
 */
export function retryDelayMs(given: Partial<Backoff>, tryNumber: number, random: number): number {
  const backoff = soundBackoff(given);
  const grown = {
    fixed: backoff.baseMs,
    linear: backoff.baseMs * tryNumber,
    exponential: backoff.baseMs * backoff.factor ** Math.min(tryNumber - 1, 60),
  }[backoff.kind];
  // NaN is 0 × Infinity: no base, and a factor that has overflowed
  const delayMs = Number.isNaN(grown) ? 0 : Math.min(backoff.maxMs, grown);
  return Math.max(0, delayMs * (1 - backoff.jitter * random));
}

const count = aNumber({ min: 1, max: 1_000, whole: true });

const shape: Shape<RetryOptions> = {
  maxTries: optional(count),
  maxCrashes: optional(count),
  backoff: optional(oneOf('fixed', 'linear', 'exponential')),
  base: optional(aDuration),
  factor: optional(aNumber({ min: 1, max: 1_000 })),
  max: optional(aDuration),
  jitter: optional(aNumber({ min: 0, max: 1 })),
};

/** Returns the problems of some retry options; empty when there are none. */
export function retryProblems(retry: RetryOptions): readonly string[] {
  return optionProblems(retry, shape, { path: 'retry' });
}
