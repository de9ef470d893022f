import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { frontOf } from './scan-start.ts';

const at = (n: number): number => n * 256;
const flow = Array.from({ length: 300 }, (_, n) => at(1_000_000 + 2 * n));

const end = at(1_000_700);

describe('where a look at work items begins', () => {
  test('at the first one, where they stand together', () => {
    expect(frontOf([], end)).toBe(end);
    expect(frontOf([at(1_000_693)], end)).toBe(at(1_000_693));
    expect(frontOf(flow.toReversed(), end)).toBe(at(1_000_000));
  });

  test('behind a few that were dispatched long ago', () => {
    expect(frontOf([5], end)).toBe(end);
    expect(frontOf([...flow, 5], end)).toBe(at(1_000_000));
    expect(frontOf([...Array.from({ length: 40 }, (_, n) => at(n * 1_000)), ...flow], end)).toBe(
      at(1_000_000),
    );
  });

  test('never costs more than to pass all of them, and leaves no more than a thousand to be looked at one by one', () => {
    const positions = fc.uniqueArray(fc.nat(100_000).map(at), { minLength: 1, maxLength: 3_000 });
    fc.assert(
      fc.property(positions, fc.nat(50_000), (given, behind) => {
        const first = Math.min(...given);
        const last = Math.max(...given) + at(1 + behind);
        const front = frontOf(given, last);
        const strays = given.filter((position) => position < front).length;
        expect([...given, last]).toContain(front);
        expect(strays).toBeLessThanOrEqual(1_000);
        expect(strays * 20 + (last - front) / 256).toBeLessThanOrEqual((last - first) / 256);
      }),
    );
  });
});
