import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../job/job.ts';
import type { Change, Check } from '../../testing/bugs.ts';
import { asItIs, verdict } from '../../testing/bugs.ts';
import { dispatchesOf, excess, one } from '../../testing/limits.ts';
import type { Arrival, Luck } from '../../testing/world.ts';
import { play } from '../../testing/world.ts';
import type { Bucket, Buckets } from './state/buckets.ts';
import { rate } from './rate.ts';

/**
 * Checks how much of a rate is used over 150 to 200 late ticks, with writes that lag and lose jobs, and
 * always enough work.
 */
const usesRates: Check = (change) =>
  verdict(
    fc.property(
      fc.array(
        fc.record({
          pauseMs: fc.integer({ min: 1, max: 60 }),
          lagMs: fc.integer({ min: 0, max: 30 }),
          refuses: fc.constantFrom(0, 0, 2, 5),
        }),
        { minLength: 150, maxLength: 200, size: 'max' },
      ),
      (ticks) => {
        const story = ticks.map((luck): Luck => ({ ...luck, stale: 0, fate: 'written', arrivals: backlog }));
        const gate = rate({ name: 'api', perSecond: 100, burst: 12 });
        const played = play({ gates: [change(gate)], window: 20, batchMax: 50 }, story);
        const dispatches = dispatchesOf(played);
        const lastMs = played.at(-1)?.atMs ?? 0;
        const seconds = (lastMs - (dispatches[0]?.atMs ?? 0)) / 1_000;
        expect(dispatches.length / (100 * seconds)).toBeGreaterThan(0.98);
        expect(
          excess({ name: 'api', of: () => '', cost: one, perSecond: 100, burst: 12 }, dispatches),
        ).toBeLessThan(1e-6);
      },
    ),
    change,
    8,
  );

const backlog: readonly Arrival[] = Array.from({ length: 12 }, (_, index) => ({
  queue: 'mail',
  key: `k${index % 3}`,
  region: null,
  cost: 1,
  runMs: 1,
  ends: [],
  task: 't',
}));

test('at least 98 % of a rate is used', () => {
  expect(usesRates(asItIs).report).toBe('holds');
});

function bucketsOf(state: Json, change: (bucket: Bucket) => Bucket): Json {
  const buckets = Object.entries(state as Buckets);
  return Object.fromEntries(buckets.map(([name, bucket]) => [name, change(bucket)]));
}

const bugs: readonly (readonly [string, Change])[] = [
  [
    'counts whole tokens',
    (gate) => ({
      ...gate,
      written: (state, written) =>
        bucketsOf(gate.written?.(state, written) ?? {}, ([level, sinceMs, perSecond, burst]) => [
          Math.floor(level),
          sinceMs,
          perSecond,
          burst,
        ]),
    }),
  ],
  [
    'charges jobs that were not written',
    (gate) => ({
      ...gate,
      written: (state, written) => gate.written?.(structuredClone(state), written) ?? state,
    }),
  ],
];

describe('a seeded bug is caught', () => {
  test.each(bugs)('%s', (_bug, change) => {
    expect(usesRates(change).failed).toBe(true);
  });
});
