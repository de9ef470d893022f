import { describe, expect, test } from 'vitest';
import { createRest } from './rest.ts';

/** Runs ticks of some milliseconds; returns the rest after each. */
function rests(
  ticks: readonly {
    readonly ms: number;
    readonly jobs: number;
    readonly pause?: number;
    readonly more?: boolean;
  }[],
): readonly number[] {
  let at = 1_000;
  const rest = createRest(() => at);
  return ticks.map(({ ms, jobs, pause = 0, more = false }) => {
    at += rest.leftMs() + pause;
    const startedAt = at;
    at += ms;
    rest.ticked({ startedAt, jobs, more });
    return rest.leftMs();
  });
}

const many = (count: number, tick: Parameters<typeof rests>[0][number]): Parameters<typeof rests>[0] =>
  Array.from({ length: count }, () => tick);

describe('a leader', () => {
  test('rests for four times as long as a tick took, when ticks follow upon each other', () => {
    expect(rests(many(12, { ms: 3, jobs: 100 }))).toEqual([0, 0, 0, 0, ...Array<number>(8).fill(12)]);
  });

  test('rests for 20 ms at most', () => {
    expect(rests(many(8, { ms: 30, jobs: 100 })).at(-1)).toBe(20);
  });

  test('does not rest between ticks that wait for something', () => {
    expect(Math.max(...rests(many(20, { ms: 3, jobs: 100, pause: 2 })))).toBe(0);
  });

  test('does not rest where few jobs come', () => {
    expect(Math.max(...rests(many(50, { ms: 3, jobs: 5 })))).toBe(0);
  });

  test('does not rest while there is more', () => {
    expect(Math.max(...rests(many(20, { ms: 3, jobs: 100, more: true })))).toBe(0);
  });

  test('rests no more once ticks have ceased to follow upon each other', () => {
    expect(rests([...many(8, { ms: 3, jobs: 100 }), { ms: 3, jobs: 100, pause: 5 }]).slice(-2)).toEqual([
      12, 0,
    ]);
  });
});
