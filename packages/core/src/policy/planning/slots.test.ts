import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canRun, openSlots } from './slots.ts';

const range = fc.constantFrom({ min: 1, max: 1 }, { min: 1, max: 3 }, { min: 2, max: 3 });

describe('slots', () => {
  test('ready jobs that only busy nodes can run leave the places of idle ones', () => {
    const groups = [
      { tasks: { mail: { min: 1, max: 1 } }, slots: 5, depth: 5 },
      { tasks: { video: { min: 1, max: 2 } }, slots: 5, depth: 2 },
      { tasks: { mail: { min: 1, max: 1 }, video: { min: 1, max: 1 } }, slots: 1, depth: 1 },
    ];
    const slots = openSlots({
      pools: { default: { groups, ready: [{ task: 'video', version: 2, count: 2 }] } },
    });
    const kinds = [
      ['video', 2],
      ['video', 1],
      ['video', 1],
      ['mail', 1],
      ['mail', 2],
    ] as const;
    expect(kinds.map(([task, version]) => slots.take('default', { task, version }))).toEqual([
      'no_free_slot',
      'fits',
      'no_free_slot',
      'fits',
      'no_capable_node',
    ]);
    expect(slots.left('default')).toBe(4);
    expect(slots.fit('elsewhere', { task: 'mail', version: 1 })).toBe('no_capable_node');
  });

  test('more ready jobs than their nodes will soon take leave the places of others', () => {
    const groups = ['slow', 'quick'].map((task, n) => ({
      tasks: { [task]: { min: 1, max: 1 } },
      slots: 10,
      depth: 10 * n,
    }));
    const ready = [{ task: 'slow', version: 1, count: 25 }];
    const slots = openSlots({ pools: { default: { groups, ready } } });
    expect(slots.left('default')).toBe(10);
    expect(slots.fit('default', { task: 'slow', version: 1 })).toBe('no_free_slot');
    const taken = Array.from({ length: 11 }, () => slots.take('default', { task: 'quick', version: 1 }));
    expect(taken.filter((fit) => fit === 'fits')).toHaveLength(10);
  });

  test('are exact: as many jobs fit as the best assignment of jobs to groups has', () => {
    const arb = fc.record({
      groups: fc.array(
        fc.record({
          tasks: fc.dictionary(fc.constantFrom('t', 'u', 'v'), range),
          depth: fc.integer({ min: 0, max: 3 }),
        }),
        { maxLength: 4 },
      ),
      jobs: fc.array(
        fc.record({ task: fc.constantFrom('t', 'u', 'v'), version: fc.integer({ min: 1, max: 3 }) }),
        { maxLength: 10 },
      ),
    });
    fc.assert(
      fc.property(arb, ({ groups, jobs }) => {
        const slots = openSlots({
          pools: { p: { groups: groups.map((group) => ({ ...group, slots: group.depth })), ready: [] } },
        });
        const places: (number | undefined)[] = groups.flatMap(({ depth }) =>
          Array.from({ length: depth }, () => undefined),
        );
        const groupOf = groups.flatMap(({ depth }, index) => Array.from({ length: depth }, () => index));
        const place = (job: number, tried: Set<number>): boolean =>
          groupOf.some((group, at) => {
            const [node, kind] = [groups[group], jobs[job]];
            if (
              tried.has(at) ||
              node === undefined ||
              kind === undefined ||
              !canRun(node, kind.task, kind.version)
            )
              return false;
            tried.add(at);
            const other = places[at];
            if (other !== undefined && !place(other, tried)) return false;
            places[at] = job;
            return true;
          });
        jobs.forEach((job, index) => {
          expect(slots.take('p', job) === 'fits').toBe(place(index, new Set()));
        });
      }),
      { numRuns: 300, seed: 7 },
    );
  });

  test('with many kinds of nodes, a kind of job that is asked about late finds taken what others took before', () => {
    const groups = Array.from({ length: 8 }, (_, n) => ({
      tasks: { [`t${n}`]: { min: 1, max: 1 }, ...(n < 2 ? { both: { min: 1, max: 1 } } : {}) },
      slots: 1,
      depth: 1,
    }));
    const slots = openSlots({
      pools: { default: { groups, ready: [{ task: 't0', version: 1, count: 1 }] } },
    });
    const take = (task: string) => slots.take('default', { task, version: 1 });
    expect([take('t0'), take('t1'), take('both'), take('t2'), take('t2'), take('none')]).toEqual([
      'no_free_slot',
      'fits',
      'no_free_slot',
      'fits',
      'no_free_slot',
      'no_capable_node',
    ]);
    expect(slots.left('default')).toBe(5);
  });
});
