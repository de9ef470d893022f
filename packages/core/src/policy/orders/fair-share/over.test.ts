import { describe, expect, test } from 'vitest';
import { throughJsonb } from '../../../testing/orders.ts';
import { aJob, aPool, aSnapshot, lanesOf, nowMs } from '../../../testing/snapshots.ts';
import { policy } from '../../compose/compose.ts';
import type { Prepared } from '../../snapshot.ts';
import type { FairShareOptions } from './fair-share.ts';
import { fairShareOver } from './fair-share.ts';
import type { Uses } from './over.ts';
import { restoreOver, sumOfUses, usesNow } from './over.ts';
import type { FairShareState } from './state.ts';

const halfLifeMs = 10_000;
const tickMs = 100;
const options: FairShareOptions = { levels: [{ by: 'key' }], halfLifeMs };
const prepare = { everyMs: 1_000, deadlineMs: 1_000, fetch: () => Promise.resolve(null) };

/** A scheduler with jobs of some keys, which never run out, and slots that are free again at each tick. */
function site(given: FairShareOptions = options) {
  const made = policy({ order: fairShareOver(given, prepare) });
  let state = made.initial;
  let prepared: Prepared | undefined;
  const current = (): FairShareState => (state as { readonly fair_share: FairShareState }).fair_share;
  return {
    tick: (atMs: number, slots: number, keys: readonly string[], written = true): readonly string[] => {
      const jobs = keys.flatMap((key) =>
        Array.from({ length: Math.min(slots, 20) }, (_, n) =>
          aJob({ key, seq: atMs * 100 + n, id: `${key}-${atMs}-${n}` }),
        ),
      );
      const snapshot = aSnapshot({
        nowMs: atMs,
        lanes: lanesOf(jobs),
        pools: { default: aPool(slots) },
        prepared: prepared === undefined ? {} : { fair_share: prepared },
      });
      const plan = made.plan(snapshot, state);
      if ((plan.faults ?? []).length > 0) throw plan.faults?.[0]?.error;
      const ids = new Set(written ? plan.dispatch.map(({ id }) => id) : []);
      state = made.written?.(plan.state, { atMs, ids }) ?? plan.state;
      return plan.dispatch.map(({ id }) => id.split('-')[0] ?? '');
    },
    uses: (atMs: number): Uses => usesNow(restoreOver(current().over), { nowMs: atMs, halfLifeMs }),
    hear: (uses: unknown, atMs: number): void => void (prepared = { value: uses as Prepared['value'], atMs }),
    state: current,
  };
}

interface Run {
  readonly slots: readonly [number, number];
  readonly keys: readonly [readonly string[], readonly string[]];
  readonly ticks: readonly [number, number];
}

/** Runs two sites that hear of each other every second; returns the keys that each has served. */
function runTogether(sites: readonly ReturnType<typeof site>[], { slots, keys, ticks: [from, to] }: Run) {
  const served: string[][] = [[], []];
  for (let tick = from; tick < to; tick += 1) {
    const atMs = nowMs + tick * tickMs;
    if (tick % 10 === 0)
      for (const [index, one] of sites.entries()) one.hear(sites[1 - index]?.uses(atMs), atMs);
    for (const [index, one] of sites.entries())
      served[index]?.push(...one.tick(atMs, slots[index] ?? 0, keys[index] ?? []));
  }
  return served;
}

const countOf = (served: readonly string[] | undefined, key: string): number =>
  (served ?? []).filter((one) => one === key).length;

describe('a fair share over two installations', () => {
  test('gives a key less where another installation serves it, so that it has its part of both', () => {
    const sites = [site(), site()];
    const keys = [['a'], ['a', 'b']] as const;
    runTogether(sites, { slots: [2, 4], keys, ticks: [0, 200] });
    const [first, second] = runTogether(sites, { slots: [2, 4], keys, ticks: [200, 1_200] });
    // 6,000 slots for two keys, 2,000 of them for one alone
    const a = countOf(first, 'a') + countOf(second, 'a');
    expect(a / 6_000).toBeGreaterThan(0.47);
    expect(a / 6_000).toBeLessThan(0.53);
  });

  test('forgets what it had elsewhere, half of it each half-life', () => {
    const sites = [site(), site()];
    const keys = [['a'], ['a', 'b']] as const;
    const [, there] = runTogether(sites, { slots: [8, 4], keys, ticks: [0, 300] });
    expect(countOf(there, 'b') / (there?.length ?? 0)).toBeGreaterThan(0.9);
    const alone = { slots: [0, 4], keys: [[], ['a', 'b']] } as const;
    runTogether(sites, { ...alone, ticks: [300, 1_500] });
    const [, later] = runTogether(sites, { ...alone, ticks: [1_500, 1_700] });
    expect(countOf(later, 'a') / (later?.length ?? 0)).toBeCloseTo(0.5, 1);
  });

  test('an answer counts once, and a plan without one is that of a plain fair share', () => {
    const one = site();
    expect(one.tick(nowMs, 4, ['a', 'b']).toSorted()).toEqual(['a', 'a', 'b', 'b']);
    one.hear({ '["default","a"]': [4] }, nowMs + 1);
    expect(one.tick(nowMs + 2, 4, ['a', 'b'])).toEqual(['b', 'b', 'b', 'b']);
    expect(one.tick(nowMs + 3, 4, ['a', 'b']).toSorted()).toEqual(['a', 'a', 'b', 'b']);
  });

  test('counts as used what was written, and takes back what was not', () => {
    const one = site();
    one.tick(nowMs, 4, ['a']);
    one.tick(nowMs, 4, ['a'], false);
    expect(one.uses(nowMs)).toEqual({ '["default","a"]': [4] });
    one.hear({}, nowMs + 1);
    one.tick(nowMs + 1, 0, ['a']);
    expect(one.uses(nowMs + 1 + halfLifeMs)['["default","a"]']?.[0]).toBeCloseTo(2, 3);
  });

  test('decays without answers, too', () => {
    const one = site();
    for (let n = 0; n < 40; n += 1) one.tick(nowMs + n * halfLifeMs, 1, ['a']);
    expect(one.uses(nowMs + 40 * halfLifeMs)['["default","a"]']?.[0]).toBeLessThan(4);
  });

  test('tells the 1,000 most used shares', () => {
    const one = site();
    const many = Array.from({ length: 1_200 }, (_, n) => `k${n}`);
    one.tick(nowMs, 1_200, many);
    one.tick(nowMs, 1, ['k7']);
    const told = one.uses(nowMs);
    expect(Object.keys(told)).toHaveLength(1_000);
    expect(told['["default","k7"]']).toEqual([2]);
  });

  test.each([
    ['nothing', null],
    ['a list', [1]],
    ['names that are no JSON', { x: [1] }],
    ['numbers that are none', { '["default","a"]': ['1'] }],
    ['too few names', { '["default"]': [1] }],
    ['another number of levels', { '["default","a","b"]': [1, 1] }],
  ])('an answer with %s changes nothing', (_, answer) => {
    const one = site();
    one.hear(answer, nowMs + 1);
    expect(one.tick(nowMs + 2, 4, ['a', 'b']).toSorted()).toEqual(['a', 'a', 'b', 'b']);
  });

  test('the next leader goes on with what the last one has saved', () => {
    const one = site();
    one.tick(nowMs, 4, ['a']);
    one.hear({ '["default","b"]': [3] }, nowMs + 1);
    one.tick(nowMs + 2, 4, ['a', 'b']);
    const order = fairShareOver(options, prepare);
    const saved = throughJsonb(one.state());
    expect(order.restore?.(saved, nowMs)).toEqual(one.state());
    expect(order.restore?.({ ...saved, over: { own: 1, ownMs: 'x' } }, nowMs)).toMatchObject({
      over: { own: {}, others: {} },
    });
    expect(
      sumOfUses([
        { uses: { '["p","a"]': [2] }, left: 0.5 },
        { uses: { '["p","a"]': [1] }, left: 1 },
      ]),
    ).toEqual({
      '["p","a"]': [2],
    });
  });
});
