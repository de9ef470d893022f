import { defaultPolicy, fairShare, fifo, policy, strictPriority, turns } from '@pgqueue/core';
import type { Policy } from '@pgqueue/core';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { simulate } from './simulation/simulate.ts';
import type { Arrival } from './workloads/arrival.ts';

const policies: readonly Policy[] = [
  defaultPolicy(),
  policy({ name: 'by time', order: fairShare({ charge: 'time', halfLifeMs: 500 }) }),
  policy({ order: strictPriority(), recall: true }),
  policy({ order: fifo() }),
  policy({ order: turns() }),
];

const arrivals: fc.Arbitrary<readonly Arrival[]> = fc.array(
  fc.record({
    atMs: fc.nat(400),
    durationMs: fc.nat(60),
    queue: fc.constantFrom('x', 'y'),
    key: fc.constantFrom('a', 'b', 'c'),
    priority: fc.nat(2),
    failures: fc.nat(1),
  }),
  { minLength: 1, maxLength: 60 },
);

const setting = fc.record({
  policy: fc.constantFrom(...policies),
  workload: arrivals,
  slots: fc.integer({ min: 1, max: 6 }),
  count: fc.integer({ min: 1, max: 2 }),
});

/** Returns the most jobs in flight of queue x or of one of its keys. */
function mostOf(all: readonly { readonly queue: string; readonly inFlightMax: number }[]): number {
  return Math.max(0, ...all.filter(({ queue }) => queue === 'x').map(({ inFlightMax }) => inFlightMax));
}

/** A fixed seed, so that every run is the same. */
const runs = { numRuns: 150, seed: 20_261_121 };

test('every job ends, and no slot is idle while something could run in it', () => {
  fc.assert(
    fc.property(setting, ({ policy, workload, slots, count }) => {
      const { jobs, busyWhileWaiting, waits, utilisation, faults, queues } = simulate({
        policy,
        workload,
        fleet: [{ slots, count }],
        tickMs: 0,
        failures: { backoff: { kind: 'fixed', baseMs: 30 } },
      });
      expect(faults).toEqual([]);
      expect(jobs).toMatchObject({ arrived: workload.length, done: workload.length, unfinished: 0 });
      expect(jobs.retries).toBe(workload.reduce((sum, { failures = 0 }) => sum + failures, 0));
      expect(waits.count).toBe(workload.length);
      expect(busyWhileWaiting ?? 1).toBeCloseTo(1, 9);
      expect(utilisation).toBeLessThanOrEqual(1 + 1e-9);
      // no job is dispatched before there is a slot for it
      expect(mostOf(queues)).toBeLessThanOrEqual(slots * count);
    }),
    runs,
  );
});

test('limits of queues and keys are never exceeded, under any policy, with ticks and work items made ahead', () => {
  const limited = fc.record({
    concurrency: fc.option(fc.integer({ min: 1, max: 4 })),
    keyConcurrency: fc.option(fc.integer({ min: 1, max: 2 })),
    tickMs: fc.constantFrom(0, 3, 10),
  });
  fc.assert(
    fc.property(
      setting,
      limited,
      ({ policy, workload, slots, count }, { concurrency, keyConcurrency, tickMs }) => {
        const { lanes, queues, jobs } = simulate({
          policy,
          workload,
          fleet: [{ slots, count }],
          tickMs,
          queues: { x: { concurrency, keyConcurrency } },
          failures: { crashRate: 0.1, maxCrashes: 1_000 },
        });
        expect(jobs.done).toBe(workload.length);
        expect(mostOf(queues)).toBeLessThanOrEqual(concurrency ?? Infinity);
        expect(mostOf(lanes)).toBeLessThanOrEqual(keyConcurrency ?? Infinity);
      },
    ),
    runs,
  );
});

test('what is counted adds up', () => {
  fc.assert(
    fc.property(setting, ({ policy, workload, slots, count }) => {
      const result = simulate({ policy, workload, fleet: [{ slots, count }], untilMs: 300 });
      const { lanes, queues, jobs, series, startMs, endMs } = result;
      const { arrived, done, dead, expired, unfinished } = jobs;
      expect(done + dead + expired + unfinished).toBe(arrived);
      const busyMs = lanes.reduce((sum, lane) => sum + lane.busyMs, 0);
      expect(queues.reduce((sum, queue) => sum + queue.busyMs, 0)).toBeCloseTo(busyMs, 6);
      const spanMs = endMs - startMs;
      expect(result.utilisation * spanMs * result.slots).toBeCloseTo(busyMs, 6);
      const steps = series.running.length;
      const lastMs = spanMs - (steps - 1) * series.stepMs;
      const area = series.running.reduce(
        (sum, mean, at) => sum + mean * (at === steps - 1 ? lastMs : series.stepMs),
        0,
      );
      expect(area).toBeCloseTo(busyMs, 3);
      const served = lanes.reduce((sum, lane) => sum + lane.served.servedMs, 0);
      const entitled = lanes.reduce((sum, lane) => sum + lane.served.entitledMs, 0);
      expect(entitled).toBeCloseTo(served, 6);
    }),
    runs,
  );
});
