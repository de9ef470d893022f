import { describe, expect, test } from 'vitest';
import type { ClaimRange } from './poll-interval.ts';
import { createLowWater, createPace } from './poll-interval.ts';

describe('pace', () => {
  const idle = (hearing: boolean, from = 0, count = 10): readonly number[] => {
    const pace = createPace();
    let nowMs = from;
    return Array.from({ length: count }, () => {
      const waitMs = pace.next({ got: 0, asked: 5, nowMs, hearing });
      nowMs += waitMs;
      return waitMs;
    });
  };

  test('waits ever longer while nothing is found', () => {
    expect(idle(true, 0, 12)).toEqual([
      50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
    ]);
    expect(idle(false).slice(0, 5)).toEqual([50, 75, 112.5, 168.75, 253.125]);
    expect(idle(false).at(-1)).toBe(500);
  });

  test('without hints looks at least every 100 ms for 2 s after the last job', () => {
    const pace = createPace();
    pace.next({ got: 1, asked: 5, nowMs: 0, hearing: false });
    const waits = Array.from({ length: 30 }, (_, n) =>
      pace.next({ got: 0, asked: 5, nowMs: n * 100, hearing: false }),
    );
    expect(waits.slice(0, 5)).toEqual([15, 22.5, 33.75, 50.625, 75.9375]);
    expect(Math.max(...waits.slice(0, 20))).toBe(100);
    expect(waits.at(-1)).toBe(500);
  });

  test('an empty node claims anew once, if it had claimed a suspect', () => {
    const pace = createPace();
    pace.next({ got: 1, asked: 5, nowMs: 0, hearing: true });
    expect(pace.emptied()).toBe(false);
    pace.next({ got: 1, asked: 5, nowMs: 1, hearing: true, suspect: true });
    pace.next({ got: 1, asked: 5, nowMs: 2, hearing: true });
    expect([pace.emptied(), pace.emptied()]).toEqual([true, false]);
  });

  test('looks twice a second for a minute after it found a suspect: others may begin beside it by time alone', () => {
    const pace = createPace();
    pace.next({ got: 1, asked: 5, nowMs: 0, hearing: true, suspect: true });
    const waits: number[] = [];
    for (let nowMs = 0; nowMs < 75_000; nowMs += waits.at(-1) ?? 0)
      waits.push(pace.next({ got: 0, asked: 5, nowMs, hearing: true }));
    expect(waits.slice(0, 5)).toEqual([100, 200, 400, 500, 500]);
    expect(waits.filter((ms) => ms === 500).length).toBeGreaterThan(110);
    expect(Math.max(...waits.slice(0, 110))).toBe(500);
    expect(waits.at(-1)).toBe(8_000);
  });

  test('goes on at once after a full claim, and starts anew after any', () => {
    const pace = createPace();
    for (let n = 0; n < 8; n += 1) pace.next({ got: 0, asked: 5, nowMs: 0, hearing: true });
    expect(pace.next({ got: 5, asked: 5, nowMs: 0, hearing: true })).toBe(0);
    expect(pace.next({ got: 0, asked: 5, nowMs: 0, hearing: true })).toBe(50);
    expect(pace.next({ got: 0, asked: 5, nowMs: 0, hearing: true })).toBe(100);
    pace.hurry();
    expect(pace.next({ got: 0, asked: 5, nowMs: 0, hearing: true })).toBe(50);
  });
});

describe('low water', () => {
  const all = { from: 0, whole: true };
  const behind = (from: number): ClaimRange => ({ from, whole: false });

  test('lets each claim begin behind the last, and looks at all once a second, or when told', () => {
    const mark = createLowWater();
    expect(mark.range(0)).toEqual(all);
    mark.saw({ last: 6, filled: true, tookMs: 1 });
    expect(mark.range(10)).toEqual(behind(7));
    expect(mark.range(999)).toEqual(behind(7));
    expect(mark.range(1_000)).toEqual(all);
    expect(mark.range(1_001)).toEqual(behind(7));
    mark.drop();
    expect(mark.range(1_002)).toEqual(all);
  });

  test('looks at all less often where that takes long: a twentieth of the time, and every 30 s at least', () => {
    const mark = createLowWater();
    mark.saw({ last: 6, filled: false, tookMs: 10_000 });
    for (const [tookMs, pauseMs] of [
      [20, 1_000],
      [200, 4_000],
      [9_000, 30_000],
    ] as const) {
      mark.drop();
      expect(mark.range(0)).toEqual(all);
      mark.saw({ last: undefined, filled: false, tookMs });
      expect([mark.range(pauseMs - 1), mark.range(pauseMs)]).toEqual([behind(7), all]);
    }
  });

  test('falls back when a claim from the start was filled by older items', () => {
    const mark = createLowWater();
    mark.saw({ last: 100, filled: false, tookMs: 1 });
    mark.saw({ last: 3, filled: true, tookMs: 1 });
    mark.range(0);
    expect(mark.range(1)).toEqual(behind(4));
    mark.saw({ last: undefined, filled: false, tookMs: 1 });
    expect(mark.range(2)).toEqual(behind(4));
    mark.saw({ last: 1, filled: false, tookMs: 1 });
    expect(mark.range(3)).toEqual(behind(4));
  });
});
