import type { Gate, Policy, Snapshot } from '@pgqueue/core';
import { fifo, policy, turns } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { simulate } from './simulate.ts';
import { synthetic } from '../workloads/synthetic.ts';
import type { Arrival } from '../workloads/arrival.ts';

const inOrder = policy({ order: fifo() });
const exact = { tickMs: 0, horizonMs: 0, fleet: [{ slots: 1 }] };

/** Returns equal jobs that arrive at a constant interval. */
function regular(count: number, everyMs: number, job: Omit<Arrival, 'atMs'>): readonly Arrival[] {
  return Array.from({ length: count }, (_, at) => ({ ...job, atMs: at * everyMs }));
}

/** Wraps a policy to record the snapshots that it plans from. */
function watched(inner: Policy): { readonly policy: Policy; readonly snapshots: Snapshot[] } {
  const snapshots: Snapshot[] = [];
  return {
    snapshots,
    policy: { ...inner, plan: (snapshot, state) => (snapshots.push(snapshot), inner.plan(snapshot, state)) },
  };
}

describe('closed forms', () => {
  test('one key, one slot, the same service: each waits for those in front of it', () => {
    const { waits, jobs, utilisation, endMs } = simulate({
      ...exact,
      policy: inOrder,
      workload: regular(100, 0, { durationMs: 10 }),
    });
    expect(jobs).toMatchObject({ arrived: 100, done: 100, unfinished: 0 });
    expect(endMs).toBe(1_000);
    expect(utilisation).toBe(1);
    expect(waits).toEqual({ count: 100, meanMs: 495, p50Ms: 490, p95Ms: 940, p99Ms: 980, maxMs: 990 });
  });

  test('arrivals slower than service never wait', () => {
    const { waits, utilisation } = simulate({
      ...exact,
      policy: inOrder,
      workload: regular(100, 20, { durationMs: 10 }),
    });
    expect(waits.maxMs).toBe(0);
    expect(utilisation).toBeCloseTo(1_000 / 1_990, 10);
  });

  // W = ρ / (μ − λ): the mean wait of M/M/1, here 0.8 / (0.1 − 0.08) = 40 ms
  test('M/M/1 waits as long as theory says', () => {
    const { waits, utilisation } = simulate({
      ...exact,
      policy: inOrder,
      workload: synthetic({ jobs: 30_000, perSecond: 80, duration: { meanMs: 10 }, seed: 5 }),
    });
    expect(utilisation).toBeCloseTo(0.8, 1);
    expect(waits.meanMs).toBeGreaterThan(36);
    expect(waits.meanMs).toBeLessThan(44);
  });

  // Erlang's C formula for λ = 0.8 × 4 / 10 ms: P(wait) = 0.5964, W = P / (4μ − λ) = 7.46 ms
  test('M/M/4 waits as long as theory says', () => {
    const { waits } = simulate({
      ...exact,
      fleet: [{ slots: 2, count: 2 }],
      policy: inOrder,
      workload: synthetic({ jobs: 30_000, perSecond: 320, duration: { meanMs: 10 }, seed: 6 }),
    });
    expect(waits.meanMs).toBeGreaterThan(6.7);
    expect(waits.meanMs).toBeLessThan(8.2);
  });
});

test('the same options give the same result, to the last byte; another seed another one', () => {
  const run = (seed: number): string =>
    JSON.stringify(
      simulate({
        policy: policy({ order: turns() }),
        workload: synthetic({
          jobs: 2_000,
          perSecond: 200,
          keys: 20,
          skew: 1,
          duration: { medianMs: 40, sigma: 1 },
        }),
        failures: { errorRate: 0.1, crashRate: 0.02 },
        seed,
      }),
    );
  expect(run(1)).toBe(run(1));
  expect(run(1)).not.toBe(run(2));
});

describe('attempts', () => {
  test('fail so often as they are to, wait for their backoff, and keep their place in line', () => {
    const order: string[] = [];
    const noting: Gate = {
      name: 'noting',
      open: () => ({
        admits: () => 'admit',
        take: ({ id, tries }) => order.push(`${id} ${tries}`),
        why: () => ({ message: '', untilMs: null }),
      }),
    };
    const { jobs, endMs } = simulate({
      ...exact,
      policy: policy({ order: fifo(), gates: [noting] }),
      workload: [
        { atMs: 0, durationMs: 10, id: 'a', failures: 2 },
        { atMs: 0, durationMs: 10, id: 'b' },
        { atMs: 0, durationMs: 10, id: 'c' },
      ],
      failures: { backoff: { kind: 'fixed', baseMs: 5, jitter: 0 } },
    });
    expect(order).toEqual(['a 0', 'b 0', 'a 1', 'c 0', 'a 2']);
    expect(jobs).toMatchObject({ done: 3, retries: 2 });
    expect(endMs).toBe(50);
  });

  test('errors and crashes come as often as said, and end jobs that have too many', () => {
    const { jobs } = simulate({
      policy: inOrder,
      workload: synthetic({ jobs: 4_000, perSecond: 1_000, duration: 1 }),
      failures: {
        errorRate: 0.2,
        crashRate: 0.1,
        maxTries: 2,
        maxCrashes: 2,
        backoff: { kind: 'fixed', baseMs: 10 },
      },
    });
    // dead by the second error or the second crash: the chain of (tries, crashes) gives 0.04 + 0.01 + 2 paths
    // through both
    const dead = 0.2 * 0.2 + 0.1 * 0.1 + 2 * (0.2 * 0.1 * 0.3);
    expect(jobs.done + jobs.dead).toBe(4_000);
    expect(jobs.dead / 4_000).toBeGreaterThan(dead * 0.85);
    expect(jobs.dead / 4_000).toBeLessThan(dead * 1.15);
  });

  test('jobs that were not started in time expire; deadlines that are missed are counted', () => {
    const { jobs, deadlines } = simulate({
      ...exact,
      policy: inOrder,
      workload: [
        { atMs: 0, durationMs: 100, deadlineMs: 100 },
        { atMs: 0, durationMs: 100, deadlineMs: 150 },
        { atMs: 0, durationMs: 100, expiresMs: 50 },
        { atMs: 0, durationMs: 100, expiresMs: 50, deadlineMs: 1_000 },
      ],
    });
    expect(jobs).toMatchObject({ done: 2, expired: 2 });
    expect(deadlines).toMatchObject({ set: 3, missed: 2, late: { count: 1, maxMs: 50 } });
  });
});

describe('what policies see', () => {
  test('every job that is in flight, exactly; ended attempts with their true times; nothing of durations', () => {
    const { policy: seen, snapshots } = watched({ ...inOrder, needs: { settlements: true } });
    const workload = regular(5, 5, { durationMs: 12, key: 'k' });
    simulate({ ...exact, fleet: [{ slots: 2 }], policy: seen, workload });
    expect(snapshots[1]?.inFlight).toMatchObject([
      { id: 'job-1', state: 'running', key: 'k', dispatchedMs: 0 },
    ]);
    const settled = snapshots.flatMap((snapshot) => snapshot.settled);
    expect(settled).toContainEqual(expect.objectContaining({ outcome: 'done', busyMs: 12, endedMs: 12 }));
    expect(JSON.stringify(snapshots)).not.toContain('duration');
  });

  test('jobs behind those that a gate holds, although only a few of a key are shown at first', () => {
    const odd: Gate = {
      name: 'odd',
      open: () => ({
        admits: ({ attributes }) => (attributes['held'] === true ? 'hold' : 'admit'),
        why: () => ({ message: '', untilMs: null }),
      }),
    };
    const held = regular(500, 0, { durationMs: 1, attributes: { held: true } });
    const { jobs } = simulate({
      policy: policy({ order: turns(), gates: [odd] }),
      workload: [...held, { atMs: 0, durationMs: 1 }],
    });
    expect(jobs).toMatchObject({ done: 1, unfinished: 500 });
  });

  test('nodes that can run a task, and no others', () => {
    const fleet = [
      { slots: 1, tasks: { pdf: { min: 1, max: 1 } } },
      { slots: 3, tasks: { mail: { min: 1, max: 2 } } },
    ];
    const workload = [
      ...regular(4, 0, { durationMs: 10, task: 'pdf', key: 'a' }),
      ...regular(4, 0, { durationMs: 10, task: 'mail', key: 'b' }),
      { atMs: 0, durationMs: 10, task: 'fax', key: 'c' },
    ];
    const { jobs, held, lanes } = simulate({
      policy: policy({ order: turns() }),
      workload,
      fleet,
      tickMs: 0,
    });
    expect(jobs).toMatchObject({ done: 8, unfinished: 1 });
    expect(held).toContainEqual(expect.objectContaining({ reason: 'no_capable_node', maxJobs: 1 }));
    expect(lanes.find(({ key }) => key === 'a')?.lastMs).toBe(40);
    expect(lanes.find(({ key }) => key === 'b')?.lastMs).toBe(20);
  });
});

test('what is wrong with options is said all at once, and a bad arrival is named', () => {
  const wrong = { tickMs: -1, batchMax: 0, failures: { errorRate: 2 } };
  expect(() => simulate({ policy: inOrder, workload: [], ...wrong })).toThrow(
    /^the simulation: failures\.errorRate .*tickMs .*batchMax/,
  );
  expect(() => simulate({ policy: inOrder, workload: [{ atMs: 0, durationMs: Number.NaN }] })).toThrow(
    'arrival 0 of the workload: durationMs must be 0 or more',
  );
  expect(() => simulate({ policy: inOrder, workload: [], fleet: [] })).toThrow('it has no node');
});

test('nothing to do is no error', () => {
  expect(simulate({ policy: inOrder, workload: [] })).toMatchObject({
    jobs: { arrived: 0 },
    waits: { count: 0, p50Ms: null },
    utilisation: 0,
    jain: null,
  });
});
