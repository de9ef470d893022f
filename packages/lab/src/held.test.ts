import type { Gate, JobFacts } from '@pgqueue/core';
import { concurrency, fifo, policy } from '@pgqueue/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { simulate } from './simulation/simulate.ts';
import type { Simulation } from './simulation/result.ts';
import type { Arrival } from './workloads/arrival.ts';

/** A job in the reference model. */
interface Job {
  readonly atMs: number;
  readonly durationMs: number;
  readonly user: number;
  readonly partition: number;
}

const groupOf = ({ user, partition }: Pick<Job, 'user' | 'partition'>): string => `${user} ${partition}`;

/**
 * Returns the starts under first come, first served, with `slots` slots and `limit` jobs of each user and
 * partition. The reference model goes through all waiting jobs at each moment.
 */
function startsOf(jobs: readonly Job[], slots: number, limit: number): readonly number[] {
  const starts = jobs.map(() => Infinity);
  const running = new Map<number, number>();
  const inGroup = new Map<string, number>();
  let waiting: number[] = [];
  let next = 0;
  while (next < jobs.length || running.size > 0) {
    const ends = Math.min(...running.values());
    const nowMs = Math.min(ends, jobs[next]?.atMs ?? Infinity);
    for (const [at, endMs] of running) {
      const job = jobs[at];
      if (endMs > nowMs || job === undefined) continue;
      running.delete(at);
      inGroup.set(groupOf(job), (inGroup.get(groupOf(job)) ?? 0) - 1);
    }
    for (; (jobs[next]?.atMs ?? Infinity) <= nowMs; next += 1) waiting.push(next);
    waiting = waiting.filter((at) => {
      const job = jobs[at];
      if (job === undefined) return false;
      const taken = inGroup.get(groupOf(job)) ?? 0;
      if (running.size >= slots || taken >= limit) return true;
      running.set(at, nowMs + job.durationMs);
      inGroup.set(groupOf(job), taken + 1);
      starts[at] = nowMs;
      return false;
    });
  }
  return starts;
}

const attributes = ({ attributes: own }: JobFacts): Job => own as unknown as Job;

function run(jobs: readonly Job[], slots: number, gate: Gate): Simulation {
  return simulate({
    policy: policy({ order: fifo(), gates: [gate] }),
    workload: jobs.map(({ atMs, durationMs, user, partition }): Arrival => {
      return { atMs, durationMs, key: `user ${user}`, attributes: { user, partition } };
    }),
    fleet: [{ slots }],
    tickMs: 0,
    horizonMs: 0,
  });
}

const perGroup = (limit: number): Gate =>
  concurrency({ name: 'per_group', by: (job) => groupOf(attributes(job)), limit });

/** Returns the figures on waits that both the model and the simulation give. */
function waitsOf(jobs: readonly Job[], starts: readonly number[]): unknown {
  const waits = jobs.map(({ atMs }, at) => (starts[at] ?? Infinity) - atMs);
  const ends = jobs.map(({ durationMs }, at) => (starts[at] ?? Infinity) + durationMs);
  return {
    sumMs: waits.reduce((sum, ms) => sum + ms, 0),
    maxMs: Math.max(...waits),
    endMs: Math.max(...ends),
  };
}

function toldBy({ waits, endMs }: Simulation): unknown {
  return { sumMs: Math.round((waits.meanMs ?? 0) * waits.count), maxMs: waits.maxMs, endMs };
}

const workload: fc.Arbitrary<readonly Job[]> = fc
  .array(
    fc.record({
      atMs: fc.nat(60),
      durationMs: fc.integer({ min: 1, max: 80 }),
      user: fc.nat(2),
      partition: fc.nat(3),
    }),
    { minLength: 1, maxLength: 120, size: 'max' },
  )
  .map((jobs) => jobs.toSorted((a, b) => a.atMs - b.atMs));

describe('a gate that holds much', () => {
  test('lets go what a plain computation lets go, at the same moments', () => {
    const sizes = { slots: fc.integer({ min: 1, max: 40 }), limit: fc.integer({ min: 1, max: 12 }) };
    fc.assert(
      fc.property(workload, fc.record(sizes), (jobs, { slots, limit }) => {
        expect(toldBy(run(jobs, slots, perGroup(limit)))).toEqual(
          waitsOf(jobs, startsOf(jobs, slots, limit)),
        );
      }),
      { numRuns: 150, seed: 20_261_123 },
    );
  });

  test('counts what it holds, those of its kind that no plan looked at among them', () => {
    const jobs = Array.from({ length: 500 }, (): Job => ({ atMs: 0, durationMs: 10, user: 1, partition: 1 }));
    const { held, plans, jobs: counts } = run(jobs, 100, perGroup(2));
    expect(counts.done).toBe(500);
    expect(held).toMatchObject([{ reason: 'per_group', maxJobs: 498 }]);
    // two jobs go at a time: one plan when two have ended, and one that finds nothing more
    expect(plans.made).toBeLessThanOrEqual(2 * 250 + 5);
  });

  test.each([400, 4_000])(
    'is asked as often with %i jobs held as their groups are, at each plan',
    (count) => {
      let asked = 0;
      const inner = perGroup(1);
      const counting: Gate = {
        ...inner,
        open: (snapshot, state) => {
          const open = inner.open(snapshot, state);
          return { ...open, admits: (...given) => ((asked += 1), open.admits(...given)) };
        },
      };
      const groups = 12;
      const jobs = Array.from({ length: count }, (_, at): Job => {
        return { atMs: 0, durationMs: 1 + (at % 7), user: at % 3, partition: at % 4 };
      });
      const { plans } = run(jobs, 100, counting);
      expect(plans.made).toBeGreaterThan(count / groups);
      // each group when the plan begins, and again whenever a job of it could go
      expect(asked / plans.made).toBeLessThanOrEqual(3 * groups);
    },
  );
});
