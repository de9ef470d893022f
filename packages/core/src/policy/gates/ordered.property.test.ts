import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Change, Check } from '../../testing/bugs.ts';
import { asItIs, opened, seeing, verdict, within } from '../../testing/bugs.ts';
import { coalesce } from '../../testing/limits.ts';
import type { Tick } from '../../testing/world.ts';
import { play, stories } from '../../testing/world.ts';
import type { JobFacts, Lane } from '../snapshot.ts';
import { compareInKey, laneName } from '../snapshot.ts';
import { concurrency } from './concurrency.ts';
import { ordered } from './ordered.ts';

const isOrdered = ({ queue }: JobFacts): boolean => queue === 'mail';
const ends = new Set(['done', 'dead', 'cancelled']);

/** Returns the jobs of ordered keys that were written before an earlier job of their key had ended. */
function overtakes(ticks: readonly Tick[]): readonly string[] {
  const ended = new Set<string>();
  const arrived = new Map<string, JobFacts>();
  const found: string[] = [];
  for (const { snapshot, written, settled } of ticks) {
    for (const job of snapshot.lanes.flatMap(({ jobs }) => jobs)) arrived.set(job.id, job);
    for (const { job, outcome } of settled) if (ends.has(outcome)) ended.add(job.id);
    for (const job of written.filter(isOrdered)) {
      const before = [...arrived.values()].filter(
        (other) => laneName(other) === laneName(job) && compareInKey(other, job) < 0 && !ended.has(other.id),
      );
      found.push(...before.map(({ id }) => `${job.id} before ${id}`));
    }
  }
  return found;
}

/**
 * Checks the order of one ordered queue beside another queue, and beside a limit that holds some of the jobs.
 */
const keepsOrder: Check = (change) =>
  verdict(
    fc.property(fc.tuple(stories, fc.constantFrom([], coalesce)), ([story, bundles]) => {
      const region = concurrency({ name: 'region', by: ({ attributes }) => attributes['region'], limit: 2 });
      const gates = [region, ordered({ when: isOrdered })].map(change);
      expect(overtakes(play({ gates, coalesce: bundles }, story))).toEqual([]);
    }),
    change,
    120,
  );

/** Checks that all jobs end: no job holds its ordered key for ever. */
const comesToAnEnd: Check = (change) =>
  verdict(
    fc.property(stories, (story) => {
      const quiet = {
        pauseMs: 5_000,
        lagMs: 0,
        refuses: 0,
        stale: 0,
        fate: 'written',
        arrivals: [],
      } as const;
      const rest = Array.from(
        { length: 4 * story.flatMap(({ arrivals }) => arrivals).length + 5 },
        () => quiet,
      );
      const ticks = play({ gates: [change(ordered({ when: isOrdered }))] }, [...story, ...rest]);
      expect(ticks.at(-1)?.snapshot.lanes).toEqual([]);
    }),
    change,
    20,
  );

test('the jobs of an ordered key come to their end in their order, with retries, snoozes, crashes and leaders that change', () => {
  expect(keepsOrder(asItIs).report).toBe('holds');
});

test('all of them come to their end', () => {
  expect(comesToAnEnd(asItIs).report).toBe('holds');
});

const bugs: readonly (readonly [string, Change])[] = [
  [
    'counts what runs only',
    seeing((seen) => ({ ...seen, inFlight: seen.inFlight.filter(({ node }) => node !== null) })),
  ],
  ['forgets jobs that wait for their retry', inLanes((lane) => ({ ...lane, retryDueMs: null }))],
  ['trusts what it read before', inLanes((lane) => ({ ...lane, fresh: true }))],
  [
    'passes a first job that another rule holds',
    (gate) => ({
      ...gate,
      open: (snapshot, state) => {
        const open = gate.open(snapshot, state);
        return { ...open, admits: (job, lane, member) => open.admits(job, { ...lane, jobs: [job] }, member) };
      },
    }),
  ],
  [
    'lets more than one go in one plan',
    opened((open) => ({
      ...open,
      take: () => {},
      admits: (job, lane, member) => open.admits(job, { ...lane, jobs: [job] }, member),
    })),
  ],
  [
    'lets others join it in a bundle',
    opened((open) => ({
      ...open,
      admits: (job, lane, member) => (member ? 'admit' : open.admits(job, lane, false)),
    })),
  ],
];

/** Makes a bug that changes the lane which the gate sees. */
function inLanes(change: (lane: Lane) => Lane): Change {
  return opened((open) => ({
    ...open,
    admits: (job, lane, member) => open.admits(job, change(lane), member),
  }));
}

describe('a seeded bug is caught', () => {
  test.each(bugs)('%s', (_bug, change) => {
    expect(keepsOrder(within('ordered', change)).failed).toBe(true);
  });

  test('a line that is held for ever', () => {
    const stuck = opened((open, { inFlight }) => ({
      ...open,
      admits: (job, lane, member) =>
        inFlight.length > 0 || job.tries > 0 ? 'hold_lane' : open.admits(job, lane, member),
    }));
    expect(comesToAnEnd(within('ordered', stuck)).failed).toBe(true);
  });
});
