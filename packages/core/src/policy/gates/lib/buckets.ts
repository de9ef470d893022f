import type { Json } from '../../../job/job.ts';
import type { Rate } from '../../snapshot.ts';

/**
 * A token bucket. `level` is what it holds at `sinceMs`, before `spent`: what the last plan took of it, whose time is not known before
 * it was written. Below 0 where it was charged more than it held.
 */
export type Bucket =
  | readonly [level: number, sinceMs: number, perSecond: number, burst: number]
  | readonly [level: number, sinceMs: number, perSecond: number, burst: number, spent: number];

/** Buckets by name. */
export type Buckets = Readonly<Record<string, Bucket>>;

/**
 * How far the database's clock may step back (a standby that takes over, a clock that was set) with rates still exact over every window
 * by what it showed: what would have come since then is not there, and so long a full bucket is remembered. By a longer step, it
 * was set anew: buckets go on from there with what they hold.
 */
export const backstepMs = 5_000;

export function fullBucket({ perSecond, burst }: Rate, nowMs: number): Bucket {
  return [burst, nowMs, perSecond, burst];
}

/** What it holds at a time: less, the further that lies back, as if tokens were taken out again. */
export function levelAt([level, sinceMs, perSecond, burst]: Bucket, atMs: number): number {
  if (isSetAnew(sinceMs, atMs)) return level;
  return Math.min(burst, level + ((atMs - sinceMs) * perSecond) / 1_000);
}

/** What was spent of it at a time is taken out, and tokens count from then on: never from earlier than before, unless the clock was set anew. */
export function charge(bucket: Bucket, atMs: number, spent: number): Bucket {
  const [level, sinceMs, perSecond, burst] = bucket;
  const behind = atMs <= sinceMs && !isSetAnew(sinceMs, atMs);
  return behind
    ? [level - spent, sinceMs, perSecond, burst]
    : [levelAt(bucket, atMs) - spent, atMs, perSecond, burst];
}

/**
 * Ready for a plan at `nowMs`: what an earlier plan spent is taken out, and the rate is the present one. Until now it filled at the old
 * rate; a smaller burst takes what is above it, a greater one adds nothing at once. The same object where nothing changes.
 */
export function present(bucket: Bucket, { perSecond, burst }: Rate, nowMs: number): Bucket {
  const [, sinceMs, oldPerSecond, oldBurst, spent = 0] = bucket;
  if (spent === 0 && !isSetAnew(sinceMs, nowMs) && perSecond === oldPerSecond && burst === oldBurst)
    return bucket;
  const [level, since] = charge(bucket, nowMs, spent);
  return [Math.min(burst, level), since, perSecond, burst];
}

/** The first whole millisecond at which it holds so much; null: never. */
export function readyMs(bucket: Bucket, amount: number): number | null {
  const [level, sinceMs, perSecond, burst] = bucket;
  if (amount > burst) return null;
  const atMs = Math.ceil(sinceMs + ((amount - level) * 1_000) / perSecond);
  if (!(atMs < 8.64e15)) return null;
  return levelAt(bucket, atMs) >= amount ? atMs : atMs + 1;
}

/** Whether it need not be remembered: a bucket that is not there is full. */
export function forgettable(bucket: Bucket, nowMs: number): boolean {
  const [, sinceMs, , burst, spent = 0] = bucket;
  return nowMs >= sinceMs && levelAt(bucket, nowMs - backstepMs) >= burst && spent === 0;
}

/** The buckets of a saved state; what is none is left out. */
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
