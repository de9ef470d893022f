import type { Bucket } from '../../../../src/contract.ts';

interface Span {
  readonly slots: number;
  readonly stepMs: number;
  /** What ended up to then is in the buckets; null: nothing has been counted. */
  readonly countedTo: string | null;
}

/** Of so little time nothing can be told. */
const leastPart = 0.25;

/**
 * Worker time of a bucket as a share of the slots: of the one that is not over yet, as far as it has been counted. Null: it has only
 * just begun, or there are no slots.
 */
export function workerUse({ at, busyMs }: Pick<Bucket, 'at' | 'busyMs'>, span: Span): number | null {
  const { slots, stepMs, countedTo } = span;
  if (slots === 0 || countedTo === null) return null;
  const countedMs = Math.min(stepMs, Date.parse(countedTo) - Date.parse(at));
  return countedMs < stepMs * leastPart ? null : busyMs / (slots * countedMs);
}
