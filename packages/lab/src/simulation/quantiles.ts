/** Distribution of times. Null where there are no times. */
export interface Spread {
  readonly count: number;
  readonly meanMs: number | null;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
  readonly maxMs: number | null;
}

/** Returns all times in ascending order. */
export function sorted(times: readonly (readonly number[])[]): Float64Array {
  let count = 0;
  for (const part of times) count += part.length;
  const all = new Float64Array(count);
  let at = 0;
  for (const part of times) {
    all.set(part, at);
    at += part.length;
  }
  return all.sort();
}

/**
 * Returns the smallest time that is not exceeded by a share of `share` of the times (nearest rank). Null:
 * there are none.
 */
export function quantile(ordered: Float64Array, share: number): number | null {
  return ordered[Math.max(0, Math.ceil(ordered.length * share) - 1)] ?? null;
}

export function spreadOf(ordered: Float64Array): Spread {
  let sum = 0;
  for (const time of ordered) sum += time;
  return {
    count: ordered.length,
    meanMs: ordered.length === 0 ? null : sum / ordered.length,
    p50Ms: quantile(ordered, 0.5),
    p95Ms: quantile(ordered, 0.95),
    p99Ms: quantile(ordered, 0.99),
    maxMs: ordered.at(-1) ?? null,
  };
}
