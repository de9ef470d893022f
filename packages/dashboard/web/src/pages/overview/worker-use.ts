import type { Bucket } from '../../../../src/contract.ts';

interface Span {
  readonly slots: number;
  readonly stepMs: number;
  /** Time up to which ended jobs are in the buckets; null: nothing has been counted. */
  readonly countedTo: string | null;
}

/** Smallest counted part of a bucket that gives a meaningful figure. */
const leastPart = 0.25;

/**
 * Returns the worker time of a bucket as a share of the slots; for the incomplete bucket, of the time counted
 * so far. Null: less than a quarter of the bucket is counted, or there are no slots.
 */
export function workerUse({ at, busyMs }: Pick<Bucket, 'at' | 'busyMs'>, span: Span): number | null {
  const { slots, stepMs, countedTo } = span;
  if (slots === 0 || countedTo === null) return null;
  const countedMs = Math.min(stepMs, Date.parse(countedTo) - Date.parse(at));
  return countedMs < stepMs * leastPart ? null : busyMs / (slots * countedMs);
}
