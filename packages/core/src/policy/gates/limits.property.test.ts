import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../job/job.ts';
import type { Change, Check } from '../../testing/bugs.ts';
import { asItIs, opened, seeing, verdict, within } from '../../testing/bugs.ts';
import type { Dispatch } from '../../testing/limits.ts';
import {
  coalesce,
  dispatchesOf,
  excess,
  limits,
  mostOf,
  options,
  rates,
  region,
  wronglyHeld,
} from '../../testing/limits.ts';
import { shuffled } from '../../testing/snapshots.ts';
import type { Luck } from '../../testing/world.ts';
import { play, stories } from '../../testing/world.ts';
import { policy } from '../compose/compose.ts';
import { turns } from '../orders/ranked.ts';
import type { Bucket, Buckets } from './state/buckets.ts';
import { concurrency } from './concurrency.ts';

const told = fc.tuple(stories, fc.constantFrom(coalesce, []));
const steady = (story: readonly Luck[]): readonly Luck[] =>
  story.map((luck) => ({ ...luck, fate: luck.fate === 'dropped' ? 'dropped' : 'written' }));

const limitsHold: Check = (change) =>
  verdict(
    fc.property(told, ([story, bundles]) => {
      for (const { inFlight } of play(options(change, { coalesce: bundles }), story)) {
        for (const checked of limits) {
          const most = Math.max(0, ...mostOf(checked, inFlight).values());
          expect([checked.name, most <= checked.limit]).toEqual([checked.name, true]);
        }
      }
    }),
    change,
  );

const ratesHold: Check = (change) =>
  verdict(
    fc.property(told, ([story, bundles]) => {
      const dispatches = dispatchesOf(play(options(change, { coalesce: bundles }), story));
      for (const checked of rates) {
        expect([checked.name, excess(checked, dispatches) < 1e-6]).toEqual([checked.name, true]);
      }
    }),
    change,
  );

const conserves: Check = (change) =>
  verdict(
    fc.property(stories, (story) => {
      const history: Dispatch[] = [];
      for (const tick of play(options(change, { window: 1_000 }), steady(story))) {
        expect(wronglyHeld(tick, history)).toEqual([]);
        history.push(...dispatchesOf([tick]));
      }
    }),
    change,
  );

const restores: Check = (change) =>
  verdict(
    fc.property(told, ([story, bundles]) => {
      const world = options(change, { coalesce: bundles });
      const ticks = play(
        world,
        story.map((luck) => ({ ...luck, refuses: 0, stale: 0, fate: 'written' })),
      );
      const made = policy({ gates: world.gates, coalesce: bundles, order: turns() });
      for (const [index, { plan, atMs }] of ticks.entries()) {
        const next = ticks[index + 1];
        if (next === undefined) break;
        const saved = JSON.parse(JSON.stringify(plan.state)) as typeof plan.state;
        const parts = Object.entries(saved).map(([name, state]) => [name, { state, savedMs: atMs }] as const);
        const again = made.plan(next.snapshot, made.restore?.(Object.fromEntries(parts)) ?? {});
        const { dispatch, held, nextMs } = next.plan;
        expect([again.dispatch, again.held, again.nextMs]).toEqual([dispatch, held, nextMs]);
      }
    }),
    change,
  );

const ignoresOrder: Check = (change) =>
  verdict(
    fc.property(told, fc.gen(), ([story, bundles], draw) => {
      const world = options(change, { coalesce: bundles });
      const made = policy({ gates: world.gates, coalesce: bundles, order: turns() });
      for (const { snapshot, state, plan } of play(world, story).slice(-3)) {
        expect(made.plan(draw(shuffled, snapshot), state).dispatch).toEqual(plan.dispatch);
      }
    }),
    change,
  );

const checks = {
  'limits are never exceeded, at any time': limitsHold,
  'rates are never exceeded, over any window': ratesHold,
  'nothing is held that no limit forbids': conserves,
  'restored state gives the same next plan': restores,
  'the order of what a snapshot shows makes no difference': ignoresOrder,
} as const;

test.each(Object.entries(checks))('%s', (_name, check) => {
  expect(check(asItIs).report).toBe('holds');
});

function bucketsOf(state: Json, change: (bucket: Bucket) => Bucket): Json {
  const buckets = Object.entries(state as Buckets);
  return Object.fromEntries(buckets.map(([name, bucket]) => [name, change(bucket)]));
}

const forgetsTakes = opened(({ take: _take, ...open }) => open);
const bugs: readonly (readonly [keyof typeof checks, string, Change])[] = [
  [
    'limits are never exceeded, at any time',
    'forgets what the plan itself takes',
    within('region', forgetsTakes),
  ],
  [
    'limits are never exceeded, at any time',
    'counts what runs only',
    within(
      'region',
      seeing((seen) => ({ ...seen, inFlight: seen.inFlight.filter(({ state }) => state === 'running') })),
    ),
  ],
  [
    'limits are never exceeded, at any time',
    'counts each queue apart',
    within(
      'region',
      seeing((seen) => ({ ...seen, inFlight: seen.inFlight.filter(({ queue }) => queue === 'mail') })),
    ),
  ],
  [
    'limits are never exceeded, at any time',
    'lets the members of a bundle go, whatever their values',
    within(
      'region',
      opened((open) => ({
        ...open,
        admits: (job, lane, member) => (member ? 'admit' : open.admits(job, lane, false)),
      })),
    ),
  ],
  [
    'limits are never exceeded, at any time',
    'forgets one of several names of a cost',
    within('resources', () => concurrency({ name: 'resources', by: ({ task }) => task, limit: 4 })),
  ],
  [
    'limits are never exceeded, at any time',
    'one more than the limit',
    within('region', () => concurrency({ name: 'region', by: region, limit: 4 })),
  ],
  [
    'rates are never exceeded, over any window',
    'forgets what the plan itself takes',
    within('api', forgetsTakes),
  ],
  [
    'rates are never exceeded, over any window',
    'is charged when the plan began, not when it was written',
    within('api', (gate) => ({
      ...gate,
      written: (state, { atMs, ids }) => gate.written?.(state, { atMs: atMs - 30, ids }) ?? state,
    })),
  ],
  [
    'rates are never exceeded, over any window',
    'counts with tokens that will have come',
    within(
      'api',
      seeing((seen) => ({ ...seen, nowMs: seen.nowMs + 50 })),
    ),
  ],
  [
    'rates are never exceeded, over any window',
    'begins anew with each leader',
    within('api', (gate) => ({ ...gate, restore: () => ({}) })),
  ],
  [
    'rates are never exceeded, over any window',
    'a new leader takes what was planned last for unwritten',
    within('api', (gate) => ({
      ...gate,
      restore: (saved) =>
        bucketsOf(saved, ([level, sinceMs, perSecond, burst]) => [level, sinceMs, perSecond, burst]),
    })),
  ],
  [
    'rates are never exceeded, over any window',
    'the jobs of a bundle cost as much as one',
    within(
      'api',
      opened((open) => ({
        ...open,
        admits: (job, lane, member) => (member ? 'admit' : open.admits(job, lane, false)),
        take: (job, lane, member) => (member ? undefined : open.take?.(job, lane, false)),
      })),
    ),
  ],
  [
    'nothing is held that no limit forbids',
    'the first job that is held closes its lane',
    within(
      'region',
      opened((open) => ({
        ...open,
        admits: (job, lane, member) => (open.admits(job, lane, member) === 'admit' ? 'admit' : 'hold_lane'),
      })),
    ),
  ],
  [
    'nothing is held that no limit forbids',
    'one less than the limit',
    within('region', () => concurrency({ name: 'region', by: region, limit: 2 })),
  ],
  [
    'nothing is held that no limit forbids',
    'charges jobs that were not written',
    within('api', (gate) => ({
      ...gate,
      written: (state, written) => gate.written?.(structuredClone(state), written) ?? state,
    })),
  ],
  [
    'restored state gives the same next plan',
    'a new leader takes what was planned last for unwritten',
    within('api', (gate) => ({
      ...gate,
      restore: (saved) =>
        bucketsOf(saved, ([level, sinceMs, perSecond, burst]) => [level, sinceMs, perSecond, burst]),
    })),
  ],
  [
    'restored state gives the same next plan',
    'a new leader counts whole tokens',
    within('api', (gate) => ({
      ...gate,
      restore: (saved, savedMs) =>
        bucketsOf(gate.restore?.(saved, savedMs) ?? {}, ([level, sinceMs, perSecond, burst]) => [
          Math.floor(level),
          sinceMs,
          perSecond,
          burst,
        ]),
    })),
  ],
  [
    'the order of what a snapshot shows makes no difference',
    'holds the lane that is shown last',
    within(
      'region',
      opened((open, { lanes }) => ({
        ...open,
        admits: (job, lane, member) => (lane === lanes.at(-1) ? 'hold' : open.admits(job, lane, member)),
      })),
    ),
  ],
];

describe('a seeded bug is caught', () => {
  test.each(bugs)('%s: %s', (name, _bug, change) => {
    expect(checks[name](change).failed).toBe(true);
  });
});
