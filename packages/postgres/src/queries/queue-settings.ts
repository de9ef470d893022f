import { parseDuration, throwProblems } from '@pgqueue/core';
import type { Duration, Rate } from '@pgqueue/core';
import { sql } from 'kysely';
import type { Database } from '../database.ts';

/** The limits of a queue. They count from the scheduler's next tick on; null: none. */
export interface QueueLimits {
  /** Jobs of the queue in flight (ready or running) at most; 0: none may start. */
  readonly concurrency: number | null;
  /** The same for each of its keys. */
  readonly keyConcurrency: number | null;
  /** Jobs dispatched: over any window of w seconds at most perSecond × w + burst. */
  readonly rate: Rate | null;
  /** The same for each of its keys. */
  readonly keyRate: Rate | null;
  /** Its share beside other queues, where the order of the policy knows shares. 1 unless set. */
  readonly weight: number;
}

/** A rate to set. */
export interface RateSetting {
  readonly perSecond: number;
  /** How many may go at once. Default: what the rate gives in a second, at least 1. */
  readonly burst?: number;
}

/** What to change of a queue. What is left out stays; null clears. */
export interface QueueSettings {
  /** No more of its jobs are scheduled; those that are ready or running go on. */
  readonly paused?: boolean;
  /** The group of nodes that serves it; null: `default`. Work items that exist already stay with the pool they were given. */
  readonly pool?: string | null;
  /** How long its HISTORY is kept: 0 keeps none; null: 7 days. */
  readonly retention?: Duration | null;
  readonly concurrency?: number | null;
  readonly keyConcurrency?: number | null;
  readonly rate?: RateSetting | null;
  readonly keyRate?: RateSetting | null;
  /** Above 0; null: 1. */
  readonly weight?: number | null;
}

const countMax = 2_147_483_647;

/**
 * Changes what is given and leaves the rest; the queue needs no job to exist.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export async function configureQueue(
  { kysely }: Database,
  queue: string,
  settings: QueueSettings,
): Promise<void> {
  throwProblems('configuration', `queue ${JSON.stringify(queue)}`, settingProblems(queue, settings));
  const given = columnsOf(settings);
  await kysely
    .insertInto('queue_config')
    .values({ queue, ...given })
    .onConflict((conflict) =>
      conflict.column('queue').doUpdateSet({ queue, ...given, updated: sql<Date>`clock_timestamp()` }),
    )
    .execute();
}

/** What is wrong with a queue's name and settings; empty: nothing. */
export function settingProblems(queue: string, settings: QueueSettings): readonly string[] {
  const { pool, retention, concurrency, keyConcurrency, rate, keyRate, weight } = settings;
  return [
    ...nameProblems('queue', queue),
    ...(pool === undefined || pool === null ? [] : nameProblems('pool', pool)),
    ...(retention === undefined || retention === null || parseDuration(retention) !== undefined
      ? []
      : ['retention must be a duration, such as "30d", up to 3650d']),
    ...countProblems('concurrency', concurrency),
    ...countProblems('keyConcurrency', keyConcurrency),
    ...rateProblems('rate', rate),
    ...rateProblems('keyRate', keyRate),
    ...(weight === undefined || weight === null || above(weight, 0)
      ? []
      : ['weight must be a number above 0']),
  ];
}

function columnsOf(settings: QueueSettings) {
  const { paused, pool, retention, concurrency, keyConcurrency, rate, keyRate, weight } = settings;
  return {
    ...(paused === undefined ? {} : { paused }),
    ...(pool === undefined ? {} : { pool: pool ?? 'default' }),
    ...(retention === undefined
      ? {}
      : { retention: retention === null ? '7 days' : `${parseDuration(retention) ?? 0} milliseconds` }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(keyConcurrency === undefined ? {} : { key_concurrency: keyConcurrency }),
    ...(rate === undefined ? {} : { rate: rate?.perSecond ?? null, rate_burst: burstOf(rate) }),
    ...(keyRate === undefined
      ? {}
      : { key_rate: keyRate?.perSecond ?? null, key_rate_burst: burstOf(keyRate) }),
    ...(weight === undefined ? {} : { weight: weight ?? 1 }),
  };
}

function burstOf(rate: RateSetting | null): number | null {
  return rate === null ? null : (rate.burst ?? Math.max(1, rate.perSecond));
}

function nameProblems(what: string, name: string): readonly string[] {
  const isName = name.length >= 1 && name.length <= 100 && !name.includes('\u0000');
  return isName ? [] : [`${what} must be a text of 1 to 100 characters`];
}

function countProblems(what: string, value: number | null | undefined): readonly string[] {
  if (value === undefined || value === null) return [];
  if (Number.isInteger(value) && value >= 0 && value <= countMax) return [];
  return [`${what} must be a whole number from 0 to ${countMax}, or null for no limit`];
}

function rateProblems(what: string, rate: RateSetting | null | undefined): readonly string[] {
  if (rate === undefined || rate === null) return [];
  return [
    ...(above(rate.perSecond, 0) ? [] : [`${what}.perSecond must be a number above 0`]),
    ...(rate.burst === undefined || (Number.isFinite(rate.burst) && rate.burst >= 1)
      ? []
      : [`${what}.burst must be a number from 1`]),
  ];
}

function above(value: number, min: number): boolean {
  return Number.isFinite(value) && value > min;
}
