import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../job/job.ts';
import type { Change, Check } from '../../testing/bugs.ts';
import { asItIs, verdict } from '../../testing/bugs.ts';
import type { Dispatch } from '../../testing/limits.ts';
import { excess, one } from '../../testing/limits.ts';
import { aJob, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import { fifo } from '../orders/ranked.ts';
import type { PolicyState } from '../plan.ts';
import { backstepMs, levelAt } from './state/buckets.ts';
import type { Bucket, Buckets } from './state/buckets.ts';
import { rate } from './rate.ts';

const limit = { perSecond: 4, burst: 3 };
const checked = { name: 'api', of: () => '', cost: one, ...limit };
const jobs = Array.from({ length: 6 }, (_, seq) => aJob({ seq, key: `k${seq}` }));

/** One tick: the true time since the last one, and the offset of the database's clock from true time. */
interface Step {
  readonly afterMs: number;
  readonly offMs: number;
  /** Number of waiting jobs. */
  readonly jobs: number;
}

/** Returns the dispatches, with their times by the database's clock and with their true times. */
function tell(
  change: Change,
  steps: readonly Step[],
): { readonly shown: readonly Dispatch[]; readonly truth: readonly Dispatch[] } {
  const made = policy({ gates: [change(rate({ name: 'api', ...limit }))], order: fifo() });
  let state: PolicyState = made.initial;
  let trueMs = nowMs;
  const [shown, truth]: [Dispatch[], Dispatch[]] = [[], []];
  for (const { afterMs, offMs, jobs: waiting } of steps) {
    trueMs += afterMs;
    const atMs = trueMs + offMs;
    const plan = made.plan(aSnapshot({ nowMs: atMs, lanes: lanesOf(jobs.slice(0, waiting)) }), state);
    const ids = new Set(plan.dispatch.map(({ id }) => id));
    state = made.written?.(plan.state, { atMs, ids }) ?? plan.state;
    for (const job of jobs.filter(({ id }) => ids.has(id))) {
      shown.push({ job, atMs });
      truth.push({ job, atMs: trueMs });
    }
  }
  return { shown: shown.toSorted((a, b) => a.atMs - b.atMs), truth };
}

const steps = (offMs: fc.Arbitrary<number>): fc.Arbitrary<readonly Step[]> =>
  fc.array(
    fc.record({
      afterMs: fc.constantFrom(0, 10, 250, 300, 1_000, 6_000),
      offMs,
      jobs: fc.constantFrom(0, 1, 6, 6),
    }),
    { minLength: 3, maxLength: 30, size: 'max' },
  );

/** Checks the rate by the clock's own readings. The clock jumps back and forth by up to `backstepMs`. */
const byTheClock: Check = (change) =>
  verdict(
    fc.property(steps(fc.integer({ min: -backstepMs, max: 0 })), (told) => {
      expect(excess(checked, tell(change, told).shown)).toBeLessThan(1e-6);
    }),
    change,
    200,
  );

/** Checks the rate by true time. The clock is set back again and again, by small and by large steps. */
const inTruth: Check = (change) =>
  verdict(
    fc.property(
      steps(fc.constantFrom(0, 0, 0, 0, 1)),
      fc.constantFrom(1_000, 60_000, 7_200_000),
      (told, backMs) => {
        let offMs = 0;
        const later = told.map((step) => {
          offMs -= step.offMs * backMs;
          return { ...step, offMs };
        });
        expect(excess(checked, tell(change, later).truth)).toBeLessThan(1e-6);
      },
    ),
    change,
    200,
  );

/**
 * Checks that jobs go on after the clock was set back, within `backstepMs` and the time that one token takes.
 */
const goesOn: Check = (change) =>
  verdict(
    fc.property(fc.integer({ min: 1, max: 7_200_000 }), (backMs) => {
      const before: Step = { afterMs: 0, offMs: 0, jobs: 6 };
      const after: Step = { afterMs: backstepMs + 1_000 / limit.perSecond, offMs: -backMs, jobs: 6 };
      const { truth } = tell(change, [before, { ...after, afterMs: 0 }, after]);
      expect(truth.length).toBeGreaterThan(limit.burst);
    }),
    change,
  );

const checks = {
  'by the clock, if it jumps a little': byTheClock,
  'in truth, however it is set back': inTruth,
  'jobs go on': goesOn,
};

test.each(Object.entries(checks))('rates hold: %s', (_name, check) => {
  expect(check(asItIs).report).toBe('holds');
});

/** Makes a bug that changes the buckets which a plan begins from. */
function beginning(change: (bucket: Bucket, atMs: number) => readonly Bucket[]): Change {
  return (gate) => ({
    ...gate,
    open: (snapshot, state) => {
      const buckets = Object.entries(state as Buckets);
      const changed = buckets.flatMap(([name, bucket]) =>
        change(bucket, snapshot.nowMs).map((one) => [name, one] as const),
      );
      return gate.open(snapshot, Object.fromEntries(changed) as Json);
    },
  });
}

const bugs: readonly (readonly [keyof typeof checks, string, Change])[] = [
  [
    'by the clock, if it jumps a little',
    'goes on from where the clock is',
    beginning(([level, sinceMs, perSecond, burst], atMs) => [
      [level, Math.min(sinceMs, atMs), perSecond, burst],
    ]),
  ],
  [
    'by the clock, if it jumps a little',
    'forgets a bucket as soon as it is full',
    beginning((bucket, atMs) => (levelAt(bucket, atMs) >= bucket[3] ? [] : [bucket])),
  ],
  [
    'in truth, however it is set back',
    'takes time by its amount, not its direction',
    beginning(([level, sinceMs, perSecond, burst], atMs) => [
      [level, Math.min(sinceMs, 2 * atMs - sinceMs), perSecond, burst],
    ]),
  ],
  [
    'jobs go on',
    'waits out any step',
    (gate) => ({
      ...gate,
      open: (snapshot, state) => {
        const [bucket] = Object.values(state as Buckets);
        return gate.open({ ...snapshot, nowMs: Math.max(snapshot.nowMs, bucket?.[1] ?? 0) }, state);
      },
    }),
  ],
];

describe('a seeded bug is caught', () => {
  test.each(bugs)('%s: %s', (name, _bug, change) => {
    expect(checks[name](change).failed).toBe(true);
  });
});
