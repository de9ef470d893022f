import {
  defaultPolicy,
  earliestDeadline,
  fairShare,
  fifo,
  gate,
  policy,
  strictPriority,
  turns,
} from '@pgqueue/core';
import type { Policy } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { compare } from './simulation/compare.ts';
import type { LaneResult, Simulation } from './simulation/result.ts';
import { simulate } from './simulation/simulate.ts';
import { merge, synthetic } from './workloads/synthetic.ts';
import type { Arrival } from './workloads/arrival.ts';

function laneOf({ lanes }: Simulation, key: string): LaneResult {
  const found = lanes.find((lane) => lane.key === key);
  if (found === undefined) throw new Error(`no key ${key}`);
  return found;
}

/** Returns jobs that are all there from the start. */
function backlog(count: number, job: Partial<Arrival>): readonly Arrival[] {
  return Array.from({ length: count }, () => ({ atMs: 0, durationMs: 10, ...job }));
}

describe('fair shares', () => {
  // ends before one of the two has nothing left, so that both wait throughout
  const both = merge(backlog(4_000, { key: 'a' }), backlog(4_000, { key: 'b' }));
  const conditions = { workload: both, fleet: [{ slots: 8 }], tickMs: 0, untilMs: 3_000 };
  const weights: Readonly<Record<string, number>> = { a: 3, b: 1 };
  const weightOf = ({ key }: { readonly key: string }): number => weights[key] ?? 1;

  test('go by weight, and Jain says so', () => {
    const order = fairShare({ levels: [{ by: 'key', weight: (key) => weights[key] ?? 1 }] });
    const result = simulate({ ...conditions, policy: policy({ order }), weightOf });
    expect(laneOf(result, 'a').busyMs / laneOf(result, 'b').busyMs).toBeCloseTo(3, 1);
    expect(laneOf(result, 'a').served.ratio).toBeCloseTo(1, 1);
    expect(result.jain).toBeGreaterThan(0.999);
  });

  test('of queues go by their weight in queue_config, and of keys within them alike', () => {
    const workload = merge(
      backlog(4_000, { queue: 'x', key: 'a' }),
      backlog(4_000, { queue: 'x', key: 'b' }),
      backlog(4_000, { queue: 'y', key: 'c' }),
    );
    const result = simulate({
      ...conditions,
      workload,
      policy: defaultPolicy(),
      queues: { x: { weight: 2 } },
    });
    expect(result.queues.map(({ share }) => share)).toEqual([
      expect.closeTo(2 / 3, 2),
      expect.closeTo(1 / 3, 2),
    ]);
    for (const { share } of result.lanes) expect(share).toBeCloseTo(1 / 3, 2);
    expect(result.jain).toBeGreaterThan(0.999);
  });

  test('of worker time differ from shares of jobs where durations do: one tenant must not have nearly all of it', () => {
    const uneven = merge(
      backlog(4_000, { key: 'slow', durationMs: 50 }),
      backlog(40_000, { key: 'fast', durationMs: 1 }),
    );
    const byCharge = (charge: 'jobs' | 'time'): Simulation =>
      simulate({
        ...conditions,
        workload: uneven,
        policy: policy({ order: fairShare({ charge }) }),
        untilMs: 4_000,
      });
    expect(laneOf(byCharge('jobs'), 'slow').share).toBeGreaterThan(0.95);
    expect(byCharge('jobs').jain).toBeLessThan(0.6);
    const time = byCharge('time');
    expect(laneOf(time, 'slow').share).toBeGreaterThan(0.45);
    expect(laneOf(time, 'slow').share).toBeLessThan(0.55);
    expect(time.jain).toBeGreaterThan(0.99);
  });

  test('are not what FIFO gives to the one that comes second', () => {
    const result = simulate({ ...conditions, policy: policy({ order: fifo() }) });
    expect(laneOf(result, 'b').served).toMatchObject({ servedMs: 0, ratio: 0 });
    expect(result.jain).toBeCloseTo(0.5, 2);
  });
});

describe('what a snapshot and a plan can say', () => {
  test('an urgent job takes back work items that no node has taken', () => {
    const urgent: Arrival = { atMs: 505, durationMs: 10, key: 'urgent', priority: -5 };
    const run = (recall: boolean): Simulation =>
      simulate({
        policy: policy({ order: strictPriority({ agingMs: null }), recall }),
        workload: merge(backlog(400, { key: 'usual' }), [urgent]),
        fleet: [{ slots: 2 }],
        horizonMs: 200,
        tickMs: 1,
      });
    const [without, with_] = [run(false), run(true)];
    expect(without.plans.recalled).toBe(0);
    expect(with_.plans.recalled).toBeGreaterThan(10);
    expect(laneOf(without, 'urgent').waits.maxMs).toBeGreaterThan(50);
    expect(laneOf(with_, 'urgent').waits.maxMs).toBeLessThan(15);
    expect(with_.jobs.done).toBe(401);
  });

  test('jobs that go together take one slot and one call', () => {
    const together = policy({ order: turns(), coalesce: [{ when: () => true, max: 10, ageMs: 50 }] });
    const run = (bundleMs?: (all: readonly number[]) => number): Simulation =>
      simulate({
        policy: together,
        workload: backlog(95, { key: 'k', queue: 'bulk' }),
        fleet: [{ slots: 1 }],
        queues: { bulk: { concurrency: 1 } },
        tickMs: 0,
        ...(bundleMs === undefined ? {} : { bundleMs }),
      });
    expect(run()).toMatchObject({ endMs: 100, jobs: { done: 95 } });
    expect(run().queues[0]).toMatchObject({ inFlightMax: 1, busyMs: 100 });
    expect(run((all) => all.reduce((sum, one) => sum + one, 0)).endMs).toBe(950);
  });

  test('the earliest deadline first meets those that FIFO misses, and its forecast is kept', () => {
    const workload = merge(
      backlog(50, { key: 'later', deadlineMs: 2_000, attributes: { due: 2_000 } }),
      backlog(50, { key: 'soon', deadlineMs: 500, attributes: { due: 500 } }),
    );
    const order = earliestDeadline({
      deadline: ({ attributes }) => Number(attributes['due']),
      cost: () => 10,
    });
    const conditions = { workload, fleet: [{ slots: 1 }], tickMs: 0 };
    const { base, other, differences } = compare({
      ...conditions,
      policy: policy({ order }),
      against: policy({ order: fifo() }),
    });
    expect([base.deadlines.missed, other.deadlines.missed]).toEqual([50, 0]);
    expect(other.forecast).toMatchObject({ with_deadline: expect.any(Number) as number });
    expect(differences).toContainEqual({
      measure: 'missed deadlines',
      unit: 'jobs',
      better: 'less',
      base: 50,
      other: 0,
      change: -50,
    });
  });

  test('what a gate would fetch is given, and rules that look at the time alone are asked again', () => {
    const opening = gate<{ readonly fromMs: number }>({
      name: 'opening',
      prepare: { everyMs: 1_000, deadlineMs: 100, fetch: () => Promise.resolve({ fromMs: 0 }) },
      admits: (_job, { nowMs }, fetched) =>
        (fetched !== null && nowMs >= fetched.value.fromMs) || 'it is closed',
    });
    const conditions = { policy: policy({ order: turns(), gates: [opening] }), workload: backlog(3, {}) };
    const { waits, jobs, held } = simulate({ ...conditions, prepared: { opening: { fromMs: 60_000 } } });
    expect(jobs.done).toBe(3);
    // the gate gives no time, so the scheduler finds out by polling
    expect(waits.maxMs).toBeGreaterThanOrEqual(60_000);
    expect(waits.maxMs).toBeLessThan(180_000);
    expect(held).toContainEqual(expect.objectContaining({ reason: 'opening', maxJobs: 3 }));
    expect(simulate(conditions).jobs).toMatchObject({ done: 0, unfinished: 3 });
  });
});

describe('time', () => {
  test('short jobs keep slots busy across ticks where work items are made ahead', () => {
    const run = (horizonMs: number): number =>
      simulate({
        policy: policy({ order: turns() }),
        workload: backlog(20_000, { durationMs: 1 }),
        fleet: [{ slots: 4 }],
        tickMs: 5,
        horizonMs,
      }).utilisation;
    expect(run(0)).toBeLessThan(0.3);
    expect(run(20)).toBeGreaterThan(0.95);
  });

  test('a batch that is full is followed by the next at the next tick', () => {
    const { endMs, plans } = simulate({
      policy: policy({ order: turns() }),
      workload: backlog(100, { durationMs: 1_000 }),
      fleet: [{ slots: 100 }],
      batchMax: 10,
      tickMs: 5,
    });
    expect(endMs).toBe(1_045);
    expect(plans.made).toBe(10);
  });

  test('ends where it is told to, and counts what is left', () => {
    const { endMs, jobs, deadlines, utilisation } = simulate({
      policy: policy({ order: fifo() }),
      workload: backlog(10, { durationMs: 100, deadlineMs: 350 }),
      fleet: [{ slots: 1 }],
      untilMs: 450,
    });
    expect(endMs).toBe(450);
    expect(jobs).toMatchObject({ done: 4, unfinished: 6 });
    expect(deadlines).toMatchObject({ set: 10, missed: 7 });
    expect(utilisation).toBeCloseTo(1, 10);
  });
});

test('both policies meet the same jobs and the same failures, even of a workload that can be iterated once', () => {
  const once = synthetic({ jobs: 500, perSecond: 500, keys: 5, duration: 10 })[
    Symbol.iterator
  ]() as Generator<Arrival>;
  const twice: Policy = policy({ name: 'again', order: fifo() });
  const { base, other, differences } = compare({
    policy: twice,
    against: policy({ order: fifo() }),
    workload: once,
    failures: { errorRate: 0.2 },
  });
  expect(base.jobs.retries).toBeGreaterThan(50);
  expect({ ...other, policy: '' }).toEqual({ ...base, policy: '' });
  expect(differences.filter(({ change }) => change !== 0 && change !== null)).toEqual([]);
});
