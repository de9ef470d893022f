/** Median and range of several repetitions. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly count: number;
}

/** Median and range of the values, ignoring NaN; NaN if there are none. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.filter((value) => !Number.isNaN(value)).toSorted((a, b) => a - b);
  return {
    median: percentile(sorted, 0.5),
    min: sorted[0] ?? NaN,
    max: sorted.at(-1) ?? NaN,
    count: sorted.length,
  };
}

/** Percentile of unsorted values, interpolated linearly between neighbours; NaN if there are none. */
export function percentile(values: ArrayLike<number>, share: number): number {
  const sorted = Array.from(values).sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const [below, above] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  if (below === undefined || above === undefined) return NaN;
  return below + (above - below) * (at - Math.floor(at));
}

/** Value of a counter at one moment. */
export interface Sample {
  readonly atMs: number;
  readonly value: number;
}

/** Increase of a counter in each second from `fromMs`, interpolated linearly between the samples. */
export function perSecond(samples: readonly Sample[], fromMs: number, toMs: number): readonly number[] {
  const seconds = Math.max(0, Math.floor((toMs - fromMs) / 1_000));
  const at = Array.from({ length: seconds + 1 }, (_, second) => valueAt(samples, fromMs + second * 1_000));
  return at.slice(1).map((value, index) => value - (at[index] ?? 0));
}

function valueAt(samples: readonly Sample[], atMs: number): number {
  let [low, high] = [0, samples.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((samples[middle]?.atMs ?? Infinity) <= atMs) low = middle + 1;
    else high = middle;
  }
  const [before, after] = [samples[low - 1], samples[low]];
  if (before === undefined) return after === undefined ? NaN : after.value;
  if (after === undefined || after.atMs === before.atMs) return before.value;
  return before.value + ((after.value - before.value) * (atMs - before.atMs)) / (after.atMs - before.atMs);
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? NaN : values.reduce((sum, value) => sum + value, 0) / values.length;
}
