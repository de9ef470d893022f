import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Backoff, RetryOptions } from './retry-policy.ts';
import { backoffOf, defaultBackoff, retryDelayMs, retryProblems } from './retry-policy.ts';

const certain = { ...defaultBackoff, jitter: 0 };

describe('the delay', () => {
  test.each([
    ['fixed', [1_000, 1_000, 1_000, 1_000]],
    ['linear', [1_000, 2_000, 3_000, 4_000]],
    ['exponential', [1_000, 2_000, 4_000, 8_000]],
  ] as const)('grows: %s', (kind, delays) => {
    expect([1, 2, 3, 4].map((n) => retryDelayMs({ ...certain, kind }, n, 0.5))).toEqual(delays);
  });

  test.each([
    [{}, 2_000],
    [{ kind: 'fixed', baseMs: 700 }, 700],
    [{ kind: 'odd' }, 2_000],
    [{ kind: 'linear', baseMs: 'soon', maxMs: -1 }, 2_000],
    [{ factor: Number.NaN, jitter: 9 }, 2_000],
    [{ baseMs: 0, factor: 1e300 }, 0],
  ])('of what plain SQL may bring, %j, is a sound one', (odd, ms) => {
    expect(retryDelayMs(odd as Partial<Backoff>, 2, 0)).toBe(ms);
    expect(retryDelayMs(odd as Partial<Backoff>, 60, 0)).not.toBeNaN();
  });

  test('jitter only ever shortens, by up to its share', () => {
    expect(retryDelayMs({ ...certain, jitter: 0.2 }, 1, 0)).toBe(1_000);
    expect(retryDelayMs({ ...certain, jitter: 0.2 }, 1, 0.5)).toBe(900);
    expect(retryDelayMs({ ...certain, jitter: 1 }, 1, 0.999)).toBeCloseTo(1);
  });

  test('is never over the longest, negative, or not a number', () => {
    const backoff: fc.Arbitrary<Backoff> = fc.record({
      kind: fc.constantFrom('fixed', 'linear', 'exponential'),
      baseMs: fc.double({ min: 0, max: 1e9, noNaN: true }),
      factor: fc.double({ min: 1, max: 1_000, noNaN: true }),
      maxMs: fc.double({ min: 0, max: 1e9, noNaN: true }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(
        backoff,
        fc.integer({ min: 1, max: 1_000 }),
        fc.double({ min: 0, max: 0.999_999, noNaN: true }),
        (options, n, random) => {
          const ms = retryDelayMs(options, n, random);
          expect(ms).toBeGreaterThanOrEqual(0);
          expect(ms).toBeLessThanOrEqual(options.maxMs);
        },
      ),
    );
  });
});

test('what is left out comes from the fallback', () => {
  expect(backoffOf({})).toEqual(defaultBackoff);
  expect(backoffOf({ base: '5s', max: 60_000, backoff: 'fixed', jitter: 0 })).toEqual({
    kind: 'fixed',
    baseMs: 5_000,
    factor: 2,
    maxMs: 60_000,
    jitter: 0,
  });
});

describe('options', () => {
  test.each<RetryOptions>([
    {},
    { maxTries: 1, maxCrashes: 1_000, backoff: 'linear', base: 0, factor: 1, max: '1h', jitter: 1 },
  ])('%j are fine', (options) => {
    expect(retryProblems(options)).toEqual([]);
  });

  test.each([
    ['maxTries', 0],
    ['maxTries', 1.5],
    ['maxTries', 1_001],
    ['maxTries', '5'],
    ['maxCrashes', Number.NaN],
    ['backoff', 'cubic'],
    ['base', '5'],
    ['max', -1],
    ['factor', 0.5],
    ['factor', Number.NaN],
    ['factor', '2'],
    ['jitter', 1.1],
    ['jitter', Number.NaN],
    ['jitter', '0.5'],
  ])('%s: %j is told', (name, value) => {
    expect(retryProblems({ [name]: value })).toEqual([expect.stringContaining(`retry.${name} must`)]);
  });

  test('all that is wrong is told at once', () => {
    expect(retryProblems({ maxTries: 0, maxCrashes: 0, factor: 0, jitter: 2, base: -1 })).toHaveLength(5);
  });
});
