import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { aJob, aPool, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import type { Order } from '../order.ts';
import type { Candidate } from '../snapshot.ts';
import { ranked } from './ranked.ts';
import { strictPriority } from './strict-priority.ts';

const agingMs = 1_000;

function inOrder(order: Order, jobs: readonly Candidate[]): readonly string[] {
  const made = policy({ order });
  const snapshot = aSnapshot({ lanes: lanesOf(jobs), pools: { default: aPool(1_000) } });
  return made.plan(snapshot, made.initial).dispatch.map(({ id }) => id);
}

/**
 * Checks the stated bound with one job in each key: of any two jobs, the one that the bound puts first goes
 * first.
 */
const bound = (order: Order): fc.IPropertyWithHooks<[Candidate[]]> =>
  fc.property(
    fc
      .array(fc.record({ priority: fc.integer({ min: -5, max: 5 }), ageMs: fc.nat({ max: 20_000 }) }), {
        maxLength: 12,
      })
      .map((jobs) =>
        jobs.map(({ priority, ageMs }, seq) =>
          aJob({ seq, key: `key${seq}`, priority, createdMs: nowMs - ageMs }),
        ),
      ),
    (jobs) => {
      const ids = inOrder(order, jobs);
      return jobs.every((job) =>
        jobs.every((other) => {
          const overtakes = other.createdMs - job.createdMs > (job.priority - other.priority) * agingMs;
          return !overtakes || ids.indexOf(job.id) < ids.indexOf(other.id);
        }),
      );
    },
  );

describe('strict priority', () => {
  test('smaller first, then the job enqueued first', () => {
    const jobs = [3, 1, 2, 1].map((priority, seq) => aJob({ seq, key: `key${seq}`, priority }));
    expect(inOrder(strictPriority(), jobs)).toEqual(['job1', 'job3', 'job2', 'job0']);
  });

  test('a job of priority p goes before one of priority q enqueued more than (p - q) * agingMs after it', () => {
    expect(() => fc.assert(bound(strictPriority({ agingMs })), { numRuns: 300, seed: 7 })).not.toThrow();
  });

  test.each([
    ['ages too slowly', strictPriority({ agingMs: agingMs * 1.2 })],
    ['never ages', strictPriority({ agingMs: null })],
    ['ages the young', ranked({ name: 'wrong', rank: (job) => job.priority * agingMs - job.createdMs })],
  ])('an order that %s breaks the bound', (_, order) => {
    expect(() => fc.assert(bound(order), { numRuns: 300, seed: 7 })).toThrow(/Property failed/);
  });

  test('without aging, the oldest job of the lowest priority goes last', () => {
    const jobs = [
      aJob({ seq: 0, key: 'old', priority: 1, createdMs: 0 }),
      aJob({ seq: 1, key: 'new', priority: 0 }),
    ];
    expect(inOrder(strictPriority({ agingMs: null }), jobs)).toEqual(['job1', 'job0']);
    expect(inOrder(strictPriority(), jobs)).toEqual(['job0', 'job1']);
  });

  test('within a key, age makes up for nothing', () => {
    const jobs = [aJob({ seq: 0, priority: 1, createdMs: 0 }), aJob({ seq: 1, priority: 0 })];
    expect(inOrder(strictPriority({ agingMs: 1 }), jobs)).toEqual(['job1', 'job0']);
  });

  test.each([0, -1, Infinity, Number.NaN])('refuses agingMs %s', (value) => {
    expect(() => strictPriority({ agingMs: value })).toThrow(/agingMs must be more than 0, or null/);
  });
});
