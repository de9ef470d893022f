import { describe, expect, test } from 'vitest';
import { durationMs, longestMs, parseDuration } from './duration.ts';

describe('a duration', () => {
  test.each([
    [0, 0],
    [1_500, 1_500],
    [0.5, 0.5],
    ['500ms', 500],
    ['30s', 30_000],
    ['1.5m', 90_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
    [' 1s ', 1_000],
    [longestMs, longestMs],
    ['3650d', longestMs],
  ])('%j is %d ms', (duration, ms) => {
    expect(parseDuration(duration)).toBe(ms);
  });

  test.each([
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    longestMs + 1,
    '3651d',
    '',
    '5',
    's',
    '-5s',
    '5 s',
    '1e3s',
    '5sec',
    '٣s',
    '1s2m',
    null,
    undefined,
    {},
    [5],
    true,
    5n,
  ])('%s is none', (value) => {
    expect(parseDuration(value)).toBeUndefined();
  });

  test('names the field that is wrong', () => {
    expect(durationMs('2s', 'leaseMs')).toBe(2_000);
    expect(() => durationMs(-1, 'leaseMs')).toThrow(/^leaseMs: -1 is no duration/);
  });
});
