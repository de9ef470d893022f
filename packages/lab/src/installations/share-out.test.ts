import { homeOf } from '@pgqueue/core/internal';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { NodeOptions } from '../workloads/fleet.ts';
import { byHome, divideFleet, divideLimits } from './share-out.ts';

const job = (
  key?: string,
): { readonly atMs: number; readonly durationMs: number; readonly key?: string } => ({
  atMs: 0,
  durationMs: 1,
  ...(key === undefined ? {} : { key }),
});

test('a job goes where a router sends it: by its key, a flow by the flow’s, others in turn', () => {
  const numbers = [1, 2, 3];
  const keys = Array.from({ length: 60 }, (_, n) => `tenant-${n}`);
  const steps = [{ name: 'a', durationMs: 1, key: 'tenant-1' }];
  const flows = [{ atMs: 0, flow: 'f', key: 'tenant-0', steps }];
  const homes = byHome([...keys.map(job), ...flows, ...Array.from({ length: 6 }, () => job())], numbers);
  for (const key of keys) {
    const at = homes.findIndex((own) => own.some((one) => one.key === key));
    expect(at + 1).toBe(homeOf(key, numbers));
  }
  expect(homes.findIndex((own) => own.some((one) => 'steps' in one)) + 1).toBe(homeOf('tenant-0', numbers));
  expect(homes.map((own) => own.filter(({ key }) => key === undefined).length)).toEqual([2, 2, 2]);
});

const slotsOf = (fleet: readonly NodeOptions[]): number =>
  fleet.reduce((sum, { slots, count = 1 }) => sum + slots * count, 0);

describe('nodes', () => {
  test('are divided without losing a slot, almost evenly, and each pool by itself', () => {
    const node = fc.record({
      slots: fc.integer({ min: 1, max: 30 }),
      count: fc.integer({ min: 1, max: 9 }),
      pool: fc.constantFrom('default', 'mail'),
    });
    fc.assert(
      fc.property(
        fc.array(node, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 8 }),
        (fleet, count) => {
          const { fleets, problems } = divideFleet(fleet, count);
          expect(fleets.reduce((sum, own) => sum + slotsOf(own), 0)).toBe(slotsOf(fleet));
          const totals = fleets.map(slotsOf);
          expect(Math.max(...totals) - Math.min(...totals)).toBeLessThanOrEqual(fleet.length);
          const pools = new Set(fleet.map(({ pool }) => pool));
          const starved = [...pools].some((name) =>
            fleets.some((own) => own.every(({ pool }) => pool !== name)),
          );
          expect(problems.length > 0).toBe(starved);
        },
      ),
      { numRuns: 200, seed: 23 },
    );
  });

  test('stay whole as far as they go', () => {
    expect(divideFleet([{ slots: 10, count: 5 }], 2).fleets).toEqual([
      [{ slots: 10, count: 2 }, { slots: 5 }],
      [{ slots: 10, count: 2 }, { slots: 5 }],
    ]);
    expect(divideFleet([{ slots: 2 }], 3).problems).toEqual([
      'pool default has too few slots for 3 installations: each needs one at least',
    ]);
  });
});

test('limits of a queue are divided, at least 1 each; those of a key stay', () => {
  const queues = {
    mail: { concurrency: 10, keyConcurrency: 2, rate: { perSecond: 30, burst: 6 }, keyRate: null },
    one: { concurrency: 1 },
    none: { concurrency: 0 },
  };
  const parts = [0, 1, 2].map((index) => divideLimits(queues, { index, count: 3 }));
  expect(parts.map(({ mail }) => mail?.concurrency)).toEqual([4, 3, 3]);
  expect(parts[1]).toMatchObject({
    mail: { keyConcurrency: 2, rate: { perSecond: 10, burst: 2 } },
    one: { concurrency: 1 },
    none: { concurrency: 0, rate: null },
  });
});
