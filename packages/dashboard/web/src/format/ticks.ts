const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Round durations, each at most 2.5 times the previous one. */
const lengths = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 20].map((n) => n * second),
  [0.5, 1, 2, 5, 10, 20].map((n) => n * minute),
  [0.5, 1, 2, 5, 12].map((n) => n * hour),
  [1, 2, 5, 10, 20, 50, 100].map((n) => n * day),
);

const parts = 3;

/** Returns the ticks of an axis up to `mostMs`: 0 and three multiples of a round duration. */
export function spanTicks(mostMs: number): readonly number[] {
  const step = lengths.find((length) => length * parts >= mostMs) ?? Math.ceil(mostMs / parts / day) * day;
  return Array.from({ length: parts + 1 }, (_, n) => n * step);
}

/** Returns the ticks of an axis of shares, up to 100 % or further if a share exceeds that. */
export function shareTicks(most: number): readonly number[] {
  if (most <= 1) return [0, 0.25, 0.5, 0.75, 1];
  const step = Math.ceil(most / 2) / 2;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, n) => n * step);
}
