import fc from 'fast-check';
import { expect, test } from 'vitest';
import { homeOf } from './home-of.ts';

const keys = Array.from({ length: 20_000 }, (_, n) => `tenant-${n}`);
const numbersOf = fc.uniqueArray(fc.integer({ min: 0, max: 1_023 }), { minLength: 1, maxLength: 20 });

/**
 * Chi-square of how keys spread, as standard deviations from its mean: about normal for even chances, so that 5 is
 * one case in millions.
 */
function unevenness(counts: readonly number[]): number {
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  const square = counts.reduce((sum, count) => sum + (count - mean) ** 2 / mean, 0);
  const freedom = counts.length - 1;
  return (square - freedom) / Math.sqrt(2 * freedom);
}

function countsOver(numbers: readonly number[], of: readonly string[] = keys): readonly number[] {
  const counts = new Map(numbers.map((number) => [number, 0]));
  for (const key of of) {
    const home = homeOf(key, numbers);
    counts.set(home, (counts.get(home) ?? 0) + 1);
  }
  return [...counts.values()];
}

test.each([
  ['neighbours', [0, 1, 2, 3]],
  ['few', [7, 900]],
  ['spread out', [1, 17, 256, 511, 512, 1023]],
  ['many', Array.from({ length: 64 }, (_, n) => n * 16)],
])('keys spread evenly over %s', (_, numbers) => {
  expect(unevenness(countsOver(numbers))).toBeLessThan(5);
  const uuids = Array.from(
    { length: 20_000 },
    (_, n) => `0198a3c2-0000-7000-8000-${n.toString(16).padStart(12, '0')}`,
  );
  expect(unevenness(countsOver(numbers, uuids))).toBeLessThan(5);
});

test('one more installation takes its part, and moves nothing between the others', () => {
  fc.assert(
    fc.property(numbersOf, fc.integer({ min: 0, max: 1_023 }), fc.string(), (numbers, added, key) => {
      fc.pre(!numbers.includes(added));
      const before = homeOf(key, numbers);
      expect([before, added]).toContain(homeOf(key, [...numbers, added]));
    }),
  );
  const moved = keys.filter((key) => homeOf(key, [1, 2, 3]) !== homeOf(key, [1, 2, 3, 4])).length;
  // a quarter, by six standard deviations
  expect(Math.abs(moved - keys.length / 4)).toBeLessThan(6 * Math.sqrt((keys.length * 3) / 16));
});

test('one that drains gives only its own keys away, in even parts', () => {
  fc.assert(
    fc.property(numbersOf, fc.nat(), fc.string(), (numbers, at, key) => {
      fc.pre(numbers.length > 1);
      const gone = numbers[at % numbers.length];
      const before = homeOf(key, numbers);
      fc.pre(before !== gone);
      expect(
        homeOf(
          key,
          numbers.filter((number) => number !== gone),
        ),
      ).toBe(before);
    }),
  );
  const orphans = keys.filter((key) => homeOf(key, [1, 2, 3, 4]) === 4);
  expect(unevenness(countsOver([1, 2, 3], orphans))).toBeLessThan(5);
});

test('the order of the numbers does not matter', () => {
  fc.assert(
    fc.property(numbersOf, fc.string(), (numbers, key) => {
      expect(homeOf(key, numbers.toReversed())).toBe(homeOf(key, numbers));
    }),
  );
});

test('the function is fixed: another one would move keys', () => {
  const homes = ['acme', 'globex', 'tenant-7', 'käse', ''].map((key) => homeOf(key, [1, 2, 3, 4]));
  expect(homes).toEqual([1, 3, 2, 4, 3]);
});
