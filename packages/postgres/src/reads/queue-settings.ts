import type { Duration, Rate } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  aDuration,
  aFlag,
  aNumber,
  anObject,
  durationMs,
  optional,
  optionProblems,
  orNull,
  throwProblems,
  shareWeights,
  valueProblems,
} from '@pgqueue/core/internal';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';

/** Limits of a queue; null: none. They take effect with the scheduler's next tick. */
export interface QueueLimits {
  /** Maximum number of the queue's jobs in flight (ready or running); 0: none may start. */
  readonly concurrency: number | null;
  /** Same limit for each of its keys. */
  readonly keyConcurrency: number | null;
  /** Dispatch rate: over any window of w seconds, at most perSecond × w + burst jobs. */
  readonly rate: Rate | null;
  /** Same rate for each of its keys. */
  readonly keyRate: Rate | null;
  /** Its share beside other queues, if the policy's order uses shares. 1 unless set. */
  readonly weight: number;
}

/** Settings of a queue, as they are kept and listed. */
export interface StoredQueueSettings extends QueueLimits {
  readonly paused: boolean;
  readonly pool: string;
  readonly retentionMs: number;
  /** Maximum number of jobs of one key that wait or run; null: no limit. */
  readonly keyPending: number | null;
}

/** Settings of a queue for which none were ever set. */
export const defaultSettings: StoredQueueSettings = {
  paused: false,
  pool: 'default',
  retentionMs: 7 * 86_400_000,
  concurrency: null,
  keyConcurrency: null,
  rate: null,
  keyRate: null,
  keyPending: null,
  weight: 1,
};

/** {@link StoredQueueSettings} of `queue_config c`, also where an outer join found no row. */
export const settingsColumns = `coalesce(c.paused, false) as paused, coalesce(c.pool, 'default') as pool,
  extract(epoch from coalesce(c.retention, interval '7 days'))::float8 * 1000 as "retentionMs", coalesce(c.weight, 1) as weight,
  c.concurrency, c.key_concurrency as "keyConcurrency", c.key_pending as "keyPending",
  case when c.rate is not null then jsonb_build_object('perSecond', c.rate, 'burst', c.rate_burst) end as rate,
  case when c.key_rate is not null then jsonb_build_object('perSecond', c.key_rate, 'burst', c.key_rate_burst) end as "keyRate"`;

/** Reads the settings of all queues that have any, and the time of their last change. */
export async function readSettings({
  query,
  schema,
}: Database): Promise<
  ReadonlyMap<string, { readonly settings: StoredQueueSettings; readonly updated: Date }>
> {
  const rows = await query<StoredQueueSettings & { queue: string; updated: Date }>(
    `select c.queue, c.updated, ${settingsColumns} from ${schema}.queue_config c order by c.queue`,
    [],
  );
  return new Map(rows.map(({ queue, updated, ...settings }) => [queue, { settings, updated }]));
}

/** A rate to set. */
export interface RateSetting {
  readonly perSecond: number;
  /** Maximum number of jobs at once. Default: the jobs of one second at this rate, at least 1. */
  readonly burst?: number;
}

/** Settings of a queue to change. A field that is left out stays; null clears it. */
export interface QueueSettings {
  /** Its jobs are not scheduled any more; ready and running jobs go on. */
  readonly paused?: boolean;
  /** The group of nodes that serves it; null: `default`. Work items that exist already stay with the pool they were given. */
  readonly pool?: string | null;
  /** Retention of its HISTORY: 0 keeps none; null: 7 days. */
  readonly retention?: Duration | null;
  readonly concurrency?: number | null;
  readonly keyConcurrency?: number | null;
  readonly rate?: RateSetting | null;
  readonly keyRate?: RateSetting | null;
  /**
   * Maximum number of jobs of one key that wait or run: an enqueue that would exceed it is refused
   * (`too_many_pending`). 1 to 100,000. Setting the first such limit, or clearing the last, waits up to 3 s
   * for transactions that have enqueued (SQLSTATE 55P03: try again).
   */
  readonly keyPending?: number | null;
  /** Above 0; null: 1. */
  readonly weight?: number | null;
}

const countMax = 2_147_483_647;

/** Outcome of a change of a queue's settings. */
export interface QueueChange {
  /** The queue had no settings, and no job waits in it: the name may be misspelt. */
  readonly isNew: boolean;
}

/**
 * Changes the given settings and leaves the rest. The queue needs no job to exist.
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
    // xmax is 0 in an inserted row, and not in an updated one
    .returning(sql<boolean>`xmax = 0`.as('inserted'))
    .executeTakeFirst();
  if (row?.inserted !== true) return { isNew: false };
  const waiting = await kysely.selectFrom('queue').select('id').where('queue', '=', queue).limit(1).execute();
  return { isNew: waiting.length === 0 };
}

/**
 * Removes all settings of a queue, so it is not paused and has no limits. Resolves to the removed settings.
 * @throws {PgQueueError} `configuration`; `not_found` if it had none
 */
export async function forgetQueue({ query, schema }: Database, queue: string): Promise<StoredQueueSettings> {
  throwProblems('configuration', `queue ${JSON.stringify(queue)}`, valueProblems(aName, queue, 'queue'));
  const [forgotten] = await query<StoredQueueSettings>(
    `delete from ${schema}.queue_config c where c.queue = $1 returning ${settingsColumns}`,
    [queue],
  );
  if (forgotten !== undefined) return forgotten;
  throw new PgQueueError(
    'not_found',
    `queue ${JSON.stringify(queue)} has no settings: see "pgqueue queues list"`,
  );
}

/** Returns settings to change in the form in which they are listed afterwards. They must have no problems. */
export function settingsToStore(settings: QueueSettings): Partial<StoredQueueSettings> {
  const { pool, retention, rate, keyRate, weight, ...others } = settings;
  const withBurst = (given: RateSetting | null): Rate | null =>
    given === null ? null : { perSecond: given.perSecond, burst: burstOf(given) };
  return {
    ...others,
    ...(pool === undefined ? {} : { pool: pool ?? 'default' }),
    ...(retention === undefined ? {} : { retentionMs: durationMs(retention ?? '7d', 'retention') }),
    ...(rate === undefined ? {} : { rate: withBurst(rate) }),
    ...(keyRate === undefined ? {} : { keyRate: withBurst(keyRate) }),
    ...(weight === undefined ? {} : { weight: weight ?? 1 }),
  };
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
  weight: optional(orNull(aNumber(shareWeights))),
};

/** Returns the problems of a queue's name and settings; empty if there are none. */
export function settingProblems(queue: string, settings: QueueSettings): readonly string[] {
  return [...valueProblems(aName, queue, 'queue'), ...optionProblems(settings, shape)];
}

/** Returns the columns to change; one that is undefined stays as it is. */
function columnsOf(settings: QueueSettings) {
  const { retentionMs, keyConcurrency, rate, keyRate, keyPending, ...same } = settingsToStore(settings);
  return {
    ...same,
    retention: retentionMs === undefined ? undefined : `${retentionMs} milliseconds`,
    key_concurrency: keyConcurrency,
    key_pending: keyPending,
    rate: rate === null ? null : rate?.perSecond,
    rate_burst: rate === null ? null : rate?.burst,
    key_rate: keyRate === null ? null : keyRate?.perSecond,
    key_rate_burst: keyRate === null ? null : keyRate?.burst,
  };
}

function burstOf({ perSecond, burst }: RateSetting): number {
  return burst ?? Math.max(1, perSecond);
}
