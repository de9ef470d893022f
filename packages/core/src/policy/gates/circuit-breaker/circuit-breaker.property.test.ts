import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Change, Check } from '../../../testing/bugs.ts';
import { asItIs, opened, seeing, verdict } from '../../../testing/bugs.ts';
import { coalesce, region } from '../../../testing/limits.ts';
import type { Luck, Tick } from '../../../testing/world.ts';
import { play, stories } from '../../../testing/world.ts';
import type { AttemptEnd } from '../../snapshot.ts';
import { own } from '../../snapshot.ts';
import { circuitBreaker } from './circuit-breaker.ts';
import type { Circuit, Circuits } from '../state/circuits.ts';

const openMs = 400;
const breaker = { name: 'region', by: region, errorRate: 0.5, minimum: 2, windowMs: 3_000, openMs };
const values = ['eu', 'us'];
const failed: ReadonlySet<AttemptEnd> = new Set(['retry', 'dead', 'crash']);

function circuitOf({ plan }: Tick, value: string): Circuit | undefined {
  return own((plan.state['region'] ?? {}) as Circuits, value);
}

/** Returns the jobs that a circuit should not have let go in one tick. */
function breaches(tick: Tick, value: string): readonly string[] {
  const circuit = circuitOf(tick, value);
  if (circuit === undefined || circuit.kind === 'closed') return [];
  const gone = tick.written.filter((item) => region(item) === value);
  if (circuit.kind === 'open') return gone.map(({ id }) => `${id} went while ${value} was open`);
  const probes = tick.inFlight.filter(
    (item) => region(item) === value && item.dispatchedMs > circuit.openedMs,
  );
  return [
    ...gone
      .filter(({ id }) => id !== circuit.probe)
      .map(({ id }) => `${id} went beside probe ${circuit.probe}`),
    ...(probes.length > 1 ? [`${probes.map(({ id }) => id).join()} are probes of ${value} together`] : []),
    ...(tick.snapshot.nowMs < circuit.openedMs ? [`the probe of ${value} went before it was opened`] : []),
  ];
}

/** Returns the wrong transitions of a circuit that had a probe in the tick before. */
function misjudged(before: Tick, tick: Tick, value: string): readonly string[] {
  const was = circuitOf(before, value);
  if (was?.kind !== 'probing') return [];
  const { probe } = was;
  const kind = circuitOf(tick, value)?.kind ?? 'closed';
  const ends = tick.settled.filter(({ job }) => job.id === probe).map(({ outcome }) => outcome);
  const refused =
    before.plan.dispatch.some(({ id }) => id === probe) && !before.written.some(({ id }) => id === probe);
  if (refused) {
    const goes = tick.snapshot.lanes.some(({ jobs }) => jobs.some((job) => region(job) === value));
    return goes && !tick.plan.dispatch.some(({ id }) => regions(tick).get(id) === value)
      ? [`${value} waits for ${probe}, which was not written`]
      : [];
  }
  const runs = ends.length === 0 && tick.snapshot.inFlight.some(({ id }) => id === probe);
  const expected = runs
    ? 'probing'
    : ends.some((end) => failed.has(end))
      ? 'open'
      : ends.includes('done')
        ? 'closed'
        : kind;
  return kind === expected ? [] : [`${value} is ${kind} after its probe ${probe}: ${ends.join()}`];
}

function regions({ snapshot }: Tick): ReadonlyMap<string, string | null> {
  return new Map(snapshot.lanes.flatMap(({ jobs }) => jobs.map((job) => [job.id, region(job)] as const)));
}

const failing = stories.map((story) =>
  story.map((luck): Luck => ({
    ...luck,
    arrivals: luck.arrivals.map((arrival) => ({ ...arrival, runMs: Math.min(arrival.runMs, 1_000) })),
  })),
);

/**
 * Checks that an open circuit sends one probe, with bundles and changes of the leader. The state is saved
 * with each batch here, so that the expected circuit is certain.
 */
const oneProbe: Check = (change) =>
  verdict(
    fc.property(fc.tuple(failing, fc.constantFrom([], coalesce)), ([story, bundles]) => {
      const gate = { ...change(circuitBreaker(breaker)), soft: false };
      const ticks = play({ gates: [gate], coalesce: bundles }, story);
      for (const [index, tick] of ticks.entries()) {
        const before = ticks[index - 1];
        expect(values.flatMap((value) => breaches(tick, value))).toEqual([]);
        // after a change of the leader, or a dropped plan, this tick does not begin from the last plan's
        // state
        if (before === undefined || story[index - 1]?.fate !== 'written') continue;
        expect(values.flatMap((value) => misjudged(before, tick, value))).toEqual([]);
      }
    }),
    change,
    150,
  );

/**
 * Checks that all jobs come to their end once they no longer fail. The state is saved late, as in production.
 */
const closesAgain: Check = (change) =>
  verdict(
    fc.property(failing, (story) => {
      const quiet: Luck = {
        pauseMs: 2 * openMs,
        lagMs: 1,
        refuses: 0,
        stale: 0,
        fate: 'written',
        arrivals: [],
      };
      const jobs = story.flatMap(({ arrivals }) => arrivals).length;
      const ticks = play({ gates: [change(circuitBreaker(breaker))] }, [
        ...story,
        ...Array.from({ length: 60 + 6 * jobs }, () => quiet),
      ]);
      expect(ticks.at(-1)?.snapshot.lanes).toEqual([]);
      expect(ticks.at(-1)?.inFlight).toEqual([]);
    }),
    change,
    25,
  );

const checks = { 'one probe': oneProbe, 'closes again': closesAgain };

test('while a circuit is not closed, one probe goes at a time; its end decides', () => {
  expect(oneProbe(asItIs).report).toBe('holds');
});

test('it closes again when what failed is well', () => {
  expect(closesAgain(asItIs).report).toBe('holds');
});

test('the stories are ones in which circuits open, probe, fail and close', () => {
  const kinds = new Map<string, number>();
  for (const story of fc.sample(failing, { seed: 20_261_121, numRuns: 150 })) {
    let before: string | undefined;
    for (const tick of play({ gates: [circuitBreaker(breaker)] }, story)) {
      const kind = circuitOf(tick, 'eu')?.kind ?? 'closed';
      if (before !== kind) kinds.set(`${before} to ${kind}`, (kinds.get(`${before} to ${kind}`) ?? 0) + 1);
      before = kind;
    }
  }
  for (const change of ['closed to open', 'open to probing', 'probing to open', 'probing to closed']) {
    expect([change, (kinds.get(change) ?? 0) >= 10]).toEqual([change, true]);
  }
});

const bugs: readonly (readonly [keyof typeof checks, string, Change])[] = [
  ['one probe', 'sends every job as a probe', opened((open) => ({ ...open, take: () => {} }))],
  [
    'one probe',
    'members of a bundle go with the probe',
    opened((open) => ({
      ...open,
      admits: (job, lane, member) => (member ? 'admit' : open.admits(job, lane, false)),
    })),
  ],
  ['one probe', 'does not see that its probe is in flight', seeing((seen) => ({ ...seen, inFlight: [] }))],
  [
    'one probe',
    'takes a failed probe for a good one',
    seeing((seen) => ({
      ...seen,
      settled: seen.settled.map((end) => ({
        ...end,
        outcome: end.job.tries > 0 && end.outcome === 'retry' ? 'done' : end.outcome,
      })),
    })),
  ],
  [
    'one probe',
    'takes the end of any job for that of its probe',
    seeing((seen) => ({
      ...seen,
      settled: seen.settled.flatMap((end) => [
        end,
        ...seen.inFlight.filter((item) => region(item) === region(end.job)).map((job) => ({ ...end, job })),
      ]),
    })),
  ],
  ['one probe', 'waits for a probe that was not written', (gate) => ({ ...gate, written: (state) => state })],
  [
    'closes again',
    'never sends a probe',
    opened((open) => ({
      ...open,
      admits: (job, lane, member) =>
        open.why(job, lane).message === 'it may go' ? open.admits(job, lane, member) : 'hold',
    })),
  ],
];

describe('a seeded bug is caught', () => {
  test.each(bugs)('%s: %s', (name, _bug, change) => {
    expect(checks[name](change).failed).toBe(true);
  });
});
