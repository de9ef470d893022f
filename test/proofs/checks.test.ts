import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Stretch, Turn } from './checks.ts';
import {
  median,
  mostAtOnce,
  outOfOrder,
  overlapping,
  percentile,
  timeShares,
  worstWindow,
} from './checks.ts';

const stretch = (beginMs: number, endMs: number | null, group = 'a'): Stretch => ({ group, beginMs, endMs });

describe('most at once', () => {
  test('finds the one moment at which a limit was broken', () => {
    const clean = [stretch(0, 10), stretch(11, 20), stretch(0, null, 'b')];
    expect(mostAtOnce(clean).map(({ group, count }) => [group, count])).toEqual([
      ['a', 1],
      ['b', 1],
    ]);
    expect(mostAtOnce([...clean, stretch(9.999, 10.5)])).toContainEqual({
      group: 'a',
      count: 2,
      atMs: 9.999,
    });
  });

  test('counts both where one begins as another ends, and what has not ended', () => {
    expect(mostAtOnce([stretch(0, 5), stretch(5, 6)])[0]?.count).toBe(2);
    expect(mostAtOnce([stretch(0, null), stretch(1e12, null)])[0]?.count).toBe(2);
  });

  test('says the same as counting at every beginning', () => {
    const times = fc.array(fc.tuple(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 20 })), {
      minLength: 1,
      maxLength: 40,
    });
    fc.assert(
      fc.property(times, (list) => {
        const all = list.map(([begin, length]) => stretch(begin, begin + length));
        const counted = all.map(
          ({ beginMs }) => all.filter((one) => one.beginMs <= beginMs && (one.endMs ?? 0) >= beginMs).length,
        );
        expect(mostAtOnce(all)[0]?.count).toBe(Math.max(...counted));
      }),
    );
  });

  test('a job that was scheduled twice at one time', () => {
    expect(overlapping([stretch(0, 5, 'x'), stretch(5, 7, 'x'), stretch(0, 7, 'y')])).toEqual([]);
    expect(overlapping([stretch(0, 5, 'x'), stretch(4.9, 7, 'x')])).toEqual(['x']);
    expect(overlapping([stretch(0, null, 'x'), stretch(100, 101, 'x')])).toEqual(['x']);
  });
});

describe('the worst window of a rate', () => {
  const rate = { perSecond: 100, burst: 10 };
  const base = 1_760_000_000_000;
  const even = Array.from({ length: 300 }, (_, n) => base + 1_000 + n * 10);

  test('holds for a full burst that is followed by the rate, and breaks by one job more', () => {
    const burst = Array.from({ length: 10 }, () => base);
    const after = Array.from({ length: 200 }, (_, n) => base + 10 + n * 10);
    expect(worstWindow([...burst, ...after], rate).jobs).toBeCloseTo(0, 6);
    const one = worstWindow([...burst, ...after, base + 1_000.5], rate);
    expect(one.jobs).toBeGreaterThan(0.9);
    expect(one.fromMs).toBe(base);
  });

  test('sees a spike that the average hides', () => {
    expect(worstWindow(even, rate).jobs).toBeLessThan(0);
    const spike = even.map((at, n) => (n < 100 || n >= 120 ? at : base + 2_000));
    expect(worstWindow(spike, rate).jobs).toBeGreaterThan(5);
    expect(spike.length).toBe(even.length);
  });

  test('says the same as looking at every pair', () => {
    const gaps = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(gaps, (list) => {
        let at = base;
        const times = list.map((gap) => (at += gap));
        const pairs = times.flatMap((from, i) =>
          times.slice(i).map((to, more) => more + 1 - ((to - from) / 1_000) * rate.perSecond - rate.burst),
        );
        expect(worstWindow(times, rate).jobs).toBeCloseTo(Math.max(...pairs), 6);
      }),
    );
  });
});

test('shares of time are cut to the window', () => {
  const all = [stretch(-50, 50), stretch(50, 150, 'b'), stretch(90, null, 'b'), stretch(200, 300, 'c')];
  const shares = timeShares(all, { fromMs: 0, toMs: 100 });
  expect([...shares.keys()]).toEqual(['a', 'b']);
  expect(shares.get('a')).toBeCloseTo(50 / 110);
  expect(shares.get('b')).toBeCloseTo(60 / 110);
});

test('order within a key: an earlier job that waited all along must not come later', () => {
  const turn = (seq: number, position: number, more: Partial<Turn> = {}): Turn => ({
    lane: 'a',
    priority: 0,
    seq,
    waitingMs: 0,
    position,
    dispatchedMs: 1_000 + position,
    ...more,
  });
  expect(outOfOrder([turn(1, 1), turn(2, 2), turn(3, 3)], 50)).toEqual([]);
  expect(outOfOrder([turn(1, 2), turn(2, 1)], 50)).toHaveLength(1);
  expect(outOfOrder([turn(1, 2, { lane: 'b' }), turn(2, 1)], 50)).toEqual([]);
  expect(outOfOrder([turn(1, 2, { priority: 5 }), turn(2, 1)], 50)).toEqual([]);
  // it came back from a retry only when the other had gone
  expect(outOfOrder([turn(1, 2, { waitingMs: 1_000 }), turn(2, 1)], 50)).toEqual([]);
});

test('percentiles and medians', () => {
  expect([percentile([3, 1, 2], 0.5), percentile([1, 2, 3, 4], 0.99), percentile([], 0.5)]).toEqual([
    2,
    4,
    NaN,
  ]);
  expect([median([3, 1, 2]), median([4, 1, 2, 3])]).toEqual([2, 2.5]);
});
