import type { Duration, Rate, Rule, Shape } from '@pgqueue/core';
import {
  aDuration,
  aFlag,
  aNumber,
  anObject,
  optional,
  optionProblems,
  orNull,
  parseDuration,
  PgQueueError,
  throwProblems,
  valueProblems,
} from '@pgqueue/core';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';

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
  /**
   * Jobs of one key that may wait or run: an enqueue that would leave more is refused (`too_many_pending`). 1 to 100,000. Setting the
   * first such limit, or clearing the last, waits up to 3 s for transactions that have enqueued (SQLSTATE 55P03: try again).
   */
  readonly keyPending?: number | null;
  /** Above 0; null: 1. */
  readonly weight?: number | null;
}

const countMax = 2_147_483_647;

/** What became of a queue's settings. */
export interface QueueChange {
  /** The queue had no settings, and no job waits in it: was another one meant? */
  readonly isNew: boolean;
}

/**
 * Changes what is given and leaves the rest; the queue needs no job to exist.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export async function configureQueue(
  { kysely }: Database,
  queue: string,
  settings: QueueSettings,
): Promise<QueueChange> {
  throwProblems('configuration', `queue ${JSON.stringify(queue)}`, settingProblems(queue, settings));
  const given = columnsOf(settings);
  const row = await kysely
    .insertInto('queue_config')
    .values({ queue, ...given })
    .onConflict((conflict) =>
      conflict.column('queue').doUpdateSet({ queue, ...given, updated: sql<Date>`clock_timestamp()` }),
    )
    // a row that was there has been updated, and so has a deleter
    .returning(sql<boolean>`xmax = 0`.as('inserted'))
    .executeTakeFirst();
  if (row?.inserted !== true) return { isNew: false };
  const waiting = await kysely.selectFrom('queue').select('id').where('queue', '=', queue).limit(1).execute();
  return { isNew: waiting.length === 0 };
}

/**
 * Takes away all settings of a queue: it is not paused any more, and has no limits. Resolves to what they were, by their columns.
 * @throws {PgQueueError} `configuration`; `not_found` where it had none
 */
export async function forgetQueue(
  { kysely }: Database,
  queue: string,
): Promise<Readonly<Record<string, unknown>>> {
  throwProblems('configuration', `queue ${JSON.stringify(queue)}`, valueProblems(aName, queue, 'queue'));
  const forgotten = await kysely
    .deleteFrom('queue_config')
    .where('queue', '=', queue)
    .returning(
      sql<Record<string, unknown>>`to_jsonb(queue_config) - '{queue,updated}'::text[]`.as('settings'),
    )
    .executeTakeFirst();
  if (forgotten !== undefined) return forgotten.settings;
  throw new PgQueueError(
    'not_found',
    `queue ${JSON.stringify(queue)} has no settings: see "pgqueue queues list"`,
  );
}

const aName: Rule = {
  expected: 'a text of 1 to 100 characters',
  judge: (value) =>
    typeof value === 'string' &&
    value.length >= 1 &&
    value.length <= 100 &&
    value.isWellFormed() &&
    !value.includes('\u0000'),
};

const aCount = aNumber({ min: 0, max: countMax, whole: true });

const rate: Shape<RateSetting> = {
  perSecond: aNumber({ above: 0 }),
  burst: optional(aNumber({ min: 1 })),
};

const shape: Shape<QueueSettings> = {
  paused: optional(aFlag),
  pool: optional(orNull(aName)),
  retention: optional(orNull({ ...aDuration, expected: 'a duration, such as "30d", up to 3650d' })),
  concurrency: optional(orNull(aCount)),
  keyConcurrency: optional(orNull(aCount)),
  rate: optional(orNull(anObject(rate, { what: 'an object with perSecond, and burst perhaps' }))),
  keyRate: optional(orNull(anObject(rate, { what: 'an object with perSecond, and burst perhaps' }))),
  keyPending: optional(orNull(aNumber({ min: 1, max: 100_000, whole: true }))),
  weight: optional(orNull(aNumber({ above: 0 }))),
};

/** What is wrong with a queue's name and settings; empty: nothing. */
export function settingProblems(queue: string, settings: QueueSettings): readonly string[] {
  return [...valueProblems(aName, queue, 'queue'), ...optionProblems(settings, shape)];
}

function columnsOf(settings: QueueSettings) {
  const { paused, pool, retention, concurrency, keyConcurrency, rate, keyRate, keyPending, weight } =
    settings;
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
    ...(keyPending === undefined ? {} : { key_pending: keyPending }),
    ...(weight === undefined ? {} : { weight: weight ?? 1 }),
  };
}

function burstOf(rate: RateSetting | null): number | null {
  return rate === null ? null : (rate.burst ?? Math.max(1, rate.perSecond));
}
