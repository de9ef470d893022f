import type { Json } from '../../../job/job.ts';
import type { Rate } from '../../snapshot.ts';

/**
 * A token bucket. `level` is the number of tokens at `sinceMs`, below 0 if more was charged than the bucket
 * held. `spent` is the amount that the last plan took and that `level` does not include yet: it is charged at
 * the time of the write, which is not known before. The leader keeps buckets as the state of their gate, and
 * saves them with each batch (table `policy_state`).
 */
export type Bucket =
  | readonly [level: number, sinceMs: number, perSecond: number, burst: number]
  | readonly [level: number, sinceMs: number, perSecond: number, burst: number, spent: number];

/** Buckets by name. */
export type Buckets = Readonly<Record<string, Bucket>>;

/**
 * Longest step back of the database's clock, in milliseconds, across which rates stay exact over every window
 * by the clock's own readings. Such a step comes from a standby that takes over, or from a clock that was
 * set.
 *
 * Within this step a bucket is treated as if the tokens since then had not come yet, and a full bucket is
 * remembered for this time. After a longer step the clock counts as set anew: buckets go on from there with
 * their level.
 */
export const backstepMs = 5_000;

export function fullBucket({ perSecond, burst }: Rate, nowMs: number): Bucket {
  return [burst, nowMs, perSecond, burst];
}

/**
 * Returns the number of tokens at a time. Before `sinceMs` the number is lower, as if tokens were taken out
 * again.
 */
export function levelAt([level, sinceMs, perSecond, burst]: Bucket, atMs: number): number {
  if (isSetAnew(sinceMs, atMs)) return level;
  return Math.min(burst, level + ((atMs - sinceMs) * perSecond) / 1_000);
}

/**
 * Takes `spent` out of the bucket at `atMs`, and counts new tokens from then on. The start never moves back,
 * unless the clock was set anew.
 */
export function charge(bucket: Bucket, atMs: number, spent: number): Bucket {
  const [level, sinceMs, perSecond, burst] = bucket;
  const behind = atMs <= sinceMs && !isSetAnew(sinceMs, atMs);
  return behind
    ? [level - spent, sinceMs, perSecond, burst]
    : [levelAt(bucket, atMs) - spent, atMs, perSecond, burst];
}

/**
 * Brings a bucket to a plan at `nowMs`: takes out the amount that an earlier plan spent, and applies the
 * present rate. Up to `nowMs` the bucket fills at the old rate. A smaller burst cuts the level; a greater one
 * adds nothing at once. The same object is returned if nothing changes.
 */
export function present(bucket: Bucket, { perSecond, burst }: Rate, nowMs: number): Bucket {
  const [, sinceMs, oldPerSecond, oldBurst, spent = 0] = bucket;
  if (spent === 0 && !isSetAnew(sinceMs, nowMs) && perSecond === oldPerSecond && burst === oldBurst)
    return bucket;
  const [level, since] = charge(bucket, nowMs, spent);
  return [Math.min(burst, level), since, perSecond, burst];
}

/** Returns the first whole millisecond at which the bucket holds `amount`. Null: never. */
export function readyMs(bucket: Bucket, amount: number): number | null {
  const [level, sinceMs, perSecond, burst] = bucket;
  if (amount > burst) return null;
  const atMs = Math.ceil(sinceMs + ((amount - level) * 1_000) / perSecond);
  if (!(atMs < 8.64e15)) return null;
  return levelAt(bucket, atMs) >= amount ? atMs : atMs + 1;
}

/** Reports whether the bucket need not be stored. A bucket that is not stored counts as full. */
export function forgettable(bucket: Bucket, nowMs: number): boolean {
  const [, sinceMs, , burst, spent = 0] = bucket;
  return nowMs >= sinceMs && levelAt(bucket, nowMs - backstepMs) >= burst && spent === 0;
}

/** Returns the buckets of a saved state, without entries that are no buckets. */
export function savedBuckets(saved: Json): Buckets {
  if (typeof saved !== 'object' || saved === null) return {};
  return Object.fromEntries(
    Object.entries(saved).flatMap(([name, value]) => (isBucket(value) ? [[name, value] as const] : [])),
  );
}

function isBucket(value: unknown): value is Bucket {
  return (
    Array.isArray(value) &&
    (value.length === 4 || value.length === 5) &&
    value.every((part) => typeof part === 'number')
  );
}

function isSetAnew(sinceMs: number, nowMs: number): boolean {
  return nowMs < sinceMs - backstepMs;
}
