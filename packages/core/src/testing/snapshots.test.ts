import fc from 'fast-check';
import { expect, test } from 'vitest';
import { planProblems } from '../policy/planning/plan-problems.ts';
import { policy } from '../policy/compose/compose.ts';
import { fifo } from '../policy/orders/ranked.ts';
import { compareInKey, laneName } from '../policy/snapshot.ts';
import { snapshots } from './snapshots.ts';

test('generated snapshots are ones that a scheduler could see', () => {
  fc.assert(
    fc.property(snapshots, ({ lanes, inFlight, settled }) => {
      const jobs = [...lanes.flatMap((lane) => lane.jobs), ...inFlight, ...settled.map(({ job }) => job)];
      expect(new Set(jobs.map(({ id }) => id)).size).toBe(jobs.length);
      expect(new Set(lanes.map(laneName)).size).toBe(lanes.length);
      for (const lane of lanes) {
        expect(lane.jobs.length).toBeGreaterThan(0);
        expect(lane.jobs).toEqual(lane.jobs.toSorted(compareInKey));
        expect(lane.jobs.every((job) => job.queue === lane.queue && job.key === lane.key)).toBe(true);
      }
    }),
    { numRuns: 200, seed: 7 },
  );
});

test('generated snapshots are crowded: some plans are full, some hold for each reason', () => {
  const seen = new Map<string, number>();
  const plain = policy({ order: fifo() });
  for (const snapshot of fc.sample(snapshots, { numRuns: 300, seed: 7 })) {
    const plan = plain.plan(snapshot, plain.initial);
    expect(planProblems(snapshot, plan)).toEqual([]);
    const reasons = new Set(Object.values(plan.held).flatMap((held) => Object.keys(held)));
    if (plan.dispatch.length > 0) reasons.add('dispatched');
    if (plan.dispatch.length > 5) reasons.add('many');
    for (const reason of reasons) seen.set(reason, (seen.get(reason) ?? 0) + 1);
  }
  const rare = ['dispatched', 'many', 'paused_queue', 'no_free_slot', 'no_capable_node', 'batch_full'].filter(
    (reason) => (seen.get(reason) ?? 0) < 15,
  );
  expect(rare).toEqual([]);
});
