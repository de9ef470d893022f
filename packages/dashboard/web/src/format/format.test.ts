import { describe, expect, test } from 'vitest';
import { bytes, counted, exact, percent, perSecond, short } from './numbers.ts';
import { clipped, pretty, visible } from './text.ts';
import { shareTicks, spanTicks } from './ticks.ts';
import { localTime, relative, span, utc, utcDay } from './times.ts';

describe('numbers have units, and say no more than can be read', () => {
  test.each([
    [0, '0', '0'],
    [9_999, '9,999', '9,999'],
    [12_345, '12.3K', '12,345'],
    [1_234_567, '1.2M', '1,234,567'],
  ])('%d', (value, inShort, whole) => {
    expect(short(value)).toBe(inShort);
    expect(exact(value)).toBe(whole);
  });

  test.each([
    [0, '0/s'],
    [0.01, '0.6/min'],
    [12.34, '12.3/s'],
    [25_000, '25K/s'],
  ])('%d a second', (value, said) => expect(perSecond(value)).toBe(said));

  test('shares, jobs, sizes', () => {
    expect([0, 0.0004, 0.125, 1].map(percent)).toEqual(['0 %', '< 0.1 %', '12.5 %', '100 %']);
    expect([counted(1, 'job'), counted(2_000, 'job'), counted(2, 'try', 'tries')]).toEqual([
      '1 job',
      '2,000 jobs',
      '2 tries',
    ]);
    expect([999, 1_400_000, 5e15].map(bytes)).toEqual(['999 B', '1.4 MB', '5,000 TB']);
  });
});

describe('times', () => {
  test.each([
    [0, '0 ms'],
    [850, '850 ms'],
    [1_000, '1 s'],
    [12_345, '12 s'],
    [245_000, '4 m 5 s'],
    [3_600_000, '1 h'],
    [11_520_000, '3 h 12 m'],
    [187_200_000, '2 d 4 h'],
  ])('a span of %d ms', (ms, said) => expect(span(ms)).toBe(said));

  test('how long ago, in one unit', () => {
    const ago = (ms: number): string => relative(1e12 - ms, 1e12);
    expect([0, 999, 1_000, 59_999, 119_000, 7_300_000, 1e9, -12_000, -10_740_000].map(ago)).toEqual([
      'now',
      'now',
      '1 s ago',
      '59 s ago',
      '1 m ago',
      '2 h ago',
      '11 d ago',
      'in 12 s',
      'in 3 h',
    ]);
  });

  test('UTC is exact; the date stands there on other days only', () => {
    const at = new Date('2026-11-21T18:40:12.123Z');
    expect(utc(at)).toBe('2026-11-21 18:40:12.123 UTC');
    expect(utc(new Date(Number.NaN))).toBe('invalid time');
    expect(utcDay(new Date('2026-11-21T00:00:00.000Z'))).toMatch(/21/);
    expect(utcDay(new Date('2026-11-21T23:59:59.999Z'))).toMatch(/21.*2026/);
    const today = localTime(at, at.getTime());
    expect(today).toMatch(/^\d\d[:.]\d\d[:.]\d\d$/);
    expect(localTime(at, at.getTime() + 3 * 86_400_000)).not.toBe(today);
    expect(localTime(at, at.getTime() + 400 * 86_400_000)).toContain('2026');
  });
});

describe('text of strangers', () => {
  test('what can’t be seen, or turns what is seen, is written out', () => {
    expect(visible('admin\u202exe.txt')).toBe('admin\\u202exe.txt');
    expect(visible('a\u0000b\u001b[31m\u200b\u2066\u00adz')).toBe(
      'a\\u0000b\\u001b[31m\\u200b\\u2066\\u00adz',
    );
    expect(visible('two\nlines\tand a tab, ünïcode, 漢字, עברית')).toBe(
      'two\nlines\tand a tab, ünïcode, 漢字, עברית',
    );
  });

  test('is cut off before it stalls a page', () => {
    expect(clipped('abc', 3)).toBe('abc');
    expect(clipped('abcd', 3)).toBe('abc…');
    expect(pretty({ a: [1] })).toBe('{\n  "a": [\n    1\n  ]\n}');
    expect(pretty('x'.repeat(200), 100)).toMatch(/more characters$/);
    expect(pretty(undefined)).toBe('null');
  });
});

describe('axes have round marks', () => {
  test.each([
    [0, ['0 ms', '1 ms', '2 ms', '3 ms']],
    [237, ['0 ms', '100 ms', '200 ms', '300 ms']],
    [31_000, ['0 ms', '20 s', '40 s', '1 m']],
    [299_000, ['0 ms', '2 m', '4 m', '6 m']],
    [40 * 60_000, ['0 ms', '20 m', '40 m', '1 h']],
    [3 * 86_400_000, ['0 ms', '1 d', '2 d', '3 d']],
  ])('of waits up to %d ms', (mostMs, marks) => expect(spanTicks(mostMs).map(span)).toEqual(marks));

  test.each([
    [0, ['0 %', '25 %', '50 %', '75 %', '100 %']],
    [1, ['0 %', '25 %', '50 %', '75 %', '100 %']],
    [1.1, ['0 %', '50 %', '100 %', '150 %']],
    [1.9, ['0 %', '50 %', '100 %', '150 %', '200 %']],
    [3.2, ['0 %', '100 %', '200 %', '300 %', '400 %']],
  ])('of shares up to %d', (most, marks) => expect(shareTicks(most).map(percent)).toEqual(marks));

  test('and reach to the most there is, however much that is', () => {
    for (let most = 1; most < 1e12; most *= 1.7) expect(spanTicks(most).at(-1)).toBeGreaterThanOrEqual(most);
    for (let most = 0.1; most < 50; most *= 1.3) expect(shareTicks(most).at(-1)).toBeGreaterThanOrEqual(most);
  });
});
