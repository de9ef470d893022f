const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Lengths of time that are said in one unit, none more than two and a half times the one before. */
const lengths = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 20].map((n) => n * second),
  [0.5, 1, 2, 5, 10, 20].map((n) => n * minute),
  [0.5, 1, 2, 5, 12].map((n) => n * hour),
  [1, 2, 5, 10, 20, 50, 100].map((n) => n * day),
);

const parts = 3;

/** Marks of an axis that reaches to `mostMs`: nought, and three multiples of a round length. */
export function spanTicks(mostMs: number): readonly number[] {
  const step = lengths.find((length) => length * parts >= mostMs) ?? Math.ceil(mostMs / parts / day) * day;
  return Array.from({ length: parts + 1 }, (_, n) => n * step);
}

/** Marks of an axis of shares: up to all of it; further where there was more than all. */
export function shareTicks(most: number): readonly number[] {
  if (most <= 1) return [0, 0.25, 0.5, 0.75, 1];
  const step = Math.ceil(most / 2) / 2;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, n) => n * step);
}
