import type { Gate } from '@pgqueue/core';
import { fifo, policy, turns } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { simulate } from './simulation/simulate.ts';
import { synthetic } from './workloads/synthetic.ts';

const inOrder = policy({ order: fifo() });

describe('limits, in virtual time', () => {
  test('concurrency of a queue and of its keys is never exceeded, and used in full', () => {
    const { limits, lanes, queues } = simulate({
      policy: policy({ order: turns() }),
      workload: synthetic({ jobs: 3_000, perSecond: 1_000, keys: 6, duration: 50, queue: 'mail' }),
      fleet: [{ slots: 40 }],
      queues: { mail: { concurrency: 9, keyConcurrency: 2 } },
      tickMs: 0,
    });
    expect(queues[0]?.inFlightMax).toBe(9);
    expect(lanes.map(({ inFlightMax }) => inFlightMax)).toEqual(lanes.map(() => 2));
    expect(limits).toEqual([
      expect.objectContaining({ kind: 'concurrency', limit: 9, max: 9 }),
      expect.objectContaining({ kind: 'keyConcurrency', limit: 2, max: 2 }),
    ]);
    expect(limits[0]?.use).toBeGreaterThan(0.97);
  });

  test('a rate holds over every window', () => {
    const times: number[] = [];
    const noting: Gate = {
      name: 'noting',
      open: ({ nowMs }) => ({
        admits: () => 'admit',
        take: () => times.push(nowMs),
        why: () => ({ message: '', untilMs: null }),
      }),
    };
    const { limits, jobs } = simulate({
      policy: policy({ order: turns(), gates: [noting] }),
      workload: synthetic({ jobs: 1_000, perSecond: 500, duration: 5, queue: 'api' }),
      queues: { api: { rate: { perSecond: 100, burst: 10 } } },
    });
    expect(jobs.done).toBe(1_000);
    for (let from = 0; from < times.length; from += 1) {
      for (let to = from; to < times.length; to += 1) {
        const windowMs = (times[to] ?? 0) - (times[from] ?? 0);
        if (to - from + 1 > windowMs / 10 + 10 + 1e-6)
          throw new Error(`${to - from + 1} jobs within ${windowMs} ms`);
      }
    }
    expect(limits).toEqual([expect.objectContaining({ kind: 'rate', limit: 100, max: null })]);
    expect(limits[0]?.use).toBeGreaterThan(0.98);
  });

  test('a paused queue stays, with its reason, and the simulation ends all the same', () => {
    const { jobs, held, plans } = simulate({
      policy: inOrder,
      workload: [0, 1, 2].map((atMs) => ({ atMs, durationMs: 1, queue: 'off' })),
      queues: { off: { paused: true } },
    });
    expect(jobs).toMatchObject({ done: 0, unfinished: 3 });
    expect(held).toEqual([expect.objectContaining({ queue: 'off', reason: 'paused_queue', maxJobs: 3 })]);
    expect(plans.made).toBeLessThan(1_100);
  });
});
