import type { Duration } from '../options/duration.ts';
import { parseDuration } from '../options/duration.ts';
import type { Shape } from '../options/options.ts';
import { aDuration, aNumber, oneOf, optional, optionProblems } from '../options/options.ts';

/** When a failed job is tried again, and how often. What is left out comes from the task, then from {@link defaultBackoff}. */
export interface RetryOptions {
  /** Attempts that may run to an error before the job is dead, 1 to 1000. Default 20. */
  readonly maxTries?: number;
  /** Leases that may be lost with their node (crash, hang) before the job is dead, 1 to 1000. Default 3. */
  readonly maxCrashes?: number;
  /** How the delay grows: the same each time, base × try, or base × factor^(try − 1). Default exponential. */
  readonly backoff?: 'fixed' | 'linear' | 'exponential';
  /** The first delay. Default 1 s. */
  readonly base?: Duration;
  /** Growth of the exponential backoff, at least 1. Default 2. */
  readonly factor?: number;
  /** The longest delay. Default 1 h. */
  readonly max?: Duration;
  /** The share of the delay that is random, 0 to 1: 0.2 takes off up to a fifth. Default 0.2. */
  readonly jitter?: number;
}

/** A backoff as it is stored with a job (column `retry`) and understood by the SQL function `backoff_ms`. */
export interface Backoff {
  readonly kind: 'fixed' | 'linear' | 'exponential';
  readonly baseMs: number;
  readonly factor: number;
  readonly maxMs: number;
  readonly jitter: number;
}

/** Attempts that may run to an error, where neither task nor enqueue says otherwise. */
export const defaultMaxTries = 20;
/** Leases that may be lost with their node, where neither task nor enqueue says otherwise. */
export const defaultMaxCrashes = 3;

/** 1 s, doubling, up to 1 h, less up to a fifth: 20 tries last about 9 hours. */
export const defaultBackoff: Backoff = {
  kind: 'exponential',
  baseMs: 1_000,
  factor: 2,
  maxMs: 3_600_000,
  jitter: 0.2,
};

/** The backoff that some options ask for. */
export function backoffOf(retry: RetryOptions, fallback: Backoff = defaultBackoff): Backoff {
  return {
    kind: retry.backoff ?? fallback.kind,
    baseMs: parseDuration(retry.base) ?? fallback.baseMs,
    factor: retry.factor ?? fallback.factor,
    maxMs: parseDuration(retry.max) ?? fallback.maxMs,
    jitter: retry.jitter ?? fallback.jitter,
  };
}

/** A backoff whose every part is usable: jobs from plain SQL may bring any JSON object. */
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
 * Milliseconds until the next attempt. What is missing in the backoff, or is no use, is as in {@link defaultBackoff}.
 * @param tryNumber the attempt that just failed, from 1
 * @param random 0 ≤ random < 1
 */
export function retryDelayMs(given: Partial<Backoff>, tryNumber: number, random: number): number {
  const backoff = soundBackoff(given);
  const grown = {
    fixed: backoff.baseMs,
    linear: backoff.baseMs * tryNumber,
    exponential: backoff.baseMs * backoff.factor ** Math.min(tryNumber - 1, 60),
  }[backoff.kind];
  // 0 × Infinity: no base, and a factor that has grown beyond all numbers
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

/** What is wrong with some retry options; empty where nothing is. */
export function retryProblems(retry: RetryOptions): readonly string[] {
  return optionProblems(retry, shape, { path: 'retry' });
}
