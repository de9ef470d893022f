import { defaultPolicy, fairShare, policy, turns } from '@pgqueue/core';
import { homeOf } from '@pgqueue/core/internal';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { installationsTables } from '../report/installations-tables.ts';
import { htmlReport } from '../report/html.ts';
import { simulate } from '../simulation/simulate.ts';
import type { Arrival } from '../workloads/arrival.ts';
import { synthetic } from '../workloads/synthetic.ts';
import type { RoutedResult } from './result.ts';
import { simulateInstallations } from './simulate-installations.ts';

/** Returns the first key of that form whose home among two installations is the given one. */
function keyIn(home: number, form: string): string {
  for (let n = 0; ; n += 1) if (homeOf(`${form}${n}`, [1, 2]) === home) return `${form}${n}`;
}

const [alone, first, second] = [keyIn(1, 'alone'), keyIn(2, 'first'), keyIn(2, 'second')];

/** As many equal jobs of each key, all there from the start. */
function backlog(keys: readonly string[], count: number): readonly Arrival[] {
  return keys.flatMap((key) => Array.from({ length: count }, () => ({ atMs: 0, durationMs: 100, key })));
}

const exact = { policy: policy({ order: turns() }), tickMs: 0, horizonMs: 0 };

function last(results: readonly RoutedResult[]): RoutedResult {
  const found = results.at(-1);
  if (found === undefined) throw new Error('there are no results');
  return found;
}

describe('one installation', () => {
  test.each(['divided', 'shared'] as const)('is as without installations, slots %s', (slots) => {
    const options = {
      policy: policy({ order: fairShare({ charge: 'time' }) }),
      workload: [...synthetic({ jobs: 3_000, perSecond: 400, keys: 20, skew: 1, duration: { meanMs: 30 } })],
      fleet: [{ slots: 4, count: 2 }],
      queues: { default: { keyConcurrency: 6 } },
    };
    const one = simulate(options);
    const [routed] = simulateInstallations({ ...options, installations: [1], slots }).results;
    expect(routed).toMatchObject({
      installations: 1,
      slots: 8,
      jobs: one.jobs,
      waits: one.waits,
      jain: one.jain,
      contendedMs: one.contendedMs,
      utilisation: one.utilisation,
      busyWhileWaiting: one.busyWhileWaiting,
      spanMs: one.endMs - one.startMs,
    });
    expect(one.jain).toBeGreaterThan(0.9);
  });

  test('is always among them, first, and each number once', () => {
    const { results } = simulateInstallations({
      ...exact,
      workload: backlog([alone], 4),
      installations: [2, 2, 4],
    });
    expect(results.map(({ installations }) => installations)).toEqual([1, 2, 4]);
  });
});

describe('two installations', () => {
  const workload = backlog([alone, first, second], 60);

  test('with divided slots: a key that is alone has twice as much, which the index shows', () => {
    const { results } = simulateInstallations({
      ...exact,
      workload,
      fleet: [{ slots: 6 }],
      installations: [2],
    });
    const [one, two] = results;
    // all have the same in one; in two, 1/2, 1/4 and 1/4 until the one that is alone has ended: (1 + 1/2 + 1/2)² / 3 (1 + 1/4 + 1/4)
    expect(one?.jain).toBeCloseTo(1, 2);
    expect(two?.jain).toBeLessThan(0.95);
    expect(two?.jain).toBeGreaterThan(0.85);
    expect(two?.homes).toMatchObject([
      {
        installation: 1,
        slots: 3,
        keys: 1,
        jobs: { done: 60 },
        share: 1 / 3,
        hottest: { key: alone, share: 1 },
      },
      { installation: 2, slots: 3, keys: 2, jobs: { done: 120 }, share: 2 / 3, hottest: { share: 0.5 } },
    ]);
    // 120 jobs of 100 ms in 3 slots, and 180 in 6
    expect([one?.spanMs, two?.spanMs]).toEqual([3_000, 4_000]);
    expect(two?.busyWhileWaiting).toBeCloseTo(18_000 / 24_000, 1);
  });

  test('with shared slots: none is idle while a job waits, so all is done as soon as in one', () => {
    const { results } = simulateInstallations({
      ...exact,
      workload,
      fleet: [{ slots: 6 }],
      installations: [2],
      slots: 'shared',
    });
    const two = last(results);
    expect(two).toMatchObject({ slots: 6, spanMs: 3_000, busyWhileWaiting: 1 });
    // slots go to the installations in turn: so the one with a single key was served first
    expect(two.homes[0]?.waits.maxMs).toBeLessThan(two.homes[1]?.waits.maxMs ?? 0);
    expect(two.jain).toBeLessThan(0.95);
  });

  test('jobs without a key go in turn, and weigh together as in one', () => {
    const { results } = simulateInstallations({
      ...exact,
      workload: backlog([''], 200),
      fleet: [{ slots: 4 }],
      installations: [2],
    });
    const two = last(results);
    expect(two.homes.map(({ jobs, keys, hottest }) => [jobs.done, keys, hottest])).toEqual([
      [100, 0, null],
      [100, 0, null],
    ]);
    expect(two.hottest).toBeNull();
  });

  test('limits of a queue are those of all together', () => {
    const { results } = simulateInstallations({
      ...exact,
      workload,
      fleet: [{ slots: 60 }],
      queues: { default: { concurrency: 4 } },
      installations: [2],
      slots: 'shared',
    });
    // 120 jobs of 100 ms in the second, 2 at a time
    expect(results.map(({ spanMs }) => spanMs)).toEqual([4_500, 6_000]);
  });
});

test('every job ends once, whatever the number and the slots', () => {
  const arrivals = fc.array(
    fc.record({
      atMs: fc.nat(300),
      durationMs: fc.nat(60),
      key: fc.constantFrom('', 'a', 'b', 'c', 'd'),
      failures: fc.nat(1),
    }),
    { minLength: 1, maxLength: 50 },
  );
  fc.assert(
    fc.property(
      arrivals,
      fc.integer({ min: 1, max: 5 }),
      fc.constantFrom('divided' as const, 'shared' as const),
      (workload, count, slots) => {
        const options = { policy: defaultPolicy(), workload, fleet: [{ slots: 5 }], slots };
        const { results } = simulateInstallations({ ...options, installations: [count] });
        for (const { jobs, homes, utilisation, waits } of results) {
          expect(jobs).toMatchObject({ arrived: workload.length, done: workload.length, unfinished: 0 });
          expect(homes.reduce((sum, home) => sum + home.jobs.done, 0)).toBe(workload.length);
          expect(homes.reduce((sum, { share }) => sum + share, 0)).toBeLessThan(1.000_001);
          expect(utilisation).toBeLessThanOrEqual(1.000_001);
          expect(waits.count).toBe(workload.length);
        }
        const again = simulateInstallations({ ...options, installations: [count] });
        expect(JSON.stringify(again.results)).toBe(JSON.stringify(results));
      },
    ),
    { numRuns: 60, seed: 23 },
  );
});

const small = { ...exact, workload: backlog(['a'], 1) };

test.each([
  [{ installations: [0] }, 'installations'],
  [{ installations: [1.5] }, 'installations'],
  [{ installations: [65] }, 'installations'],
  [{ installations: [2], slots: 'mine' as 'shared' }, 'slots'],
  [{ installations: [4], fleet: [{ slots: 3 }] }, 'pool default has too few slots for 4 installations'],
])('%j is refused', (options, problem) => {
  expect(() => simulateInstallations({ ...small, ...options })).toThrow(problem);
});

test('shared slots may be fewer than the installations', () => {
  const { results } = simulateInstallations({
    ...small,
    installations: [4],
    fleet: [{ slots: 3 }],
    slots: 'shared',
  });
  expect(last(results).jobs.done).toBe(1);
});

test('tables and page have a column for each number, and the load of each', async () => {
  const result = simulateInstallations({
    ...exact,
    workload: backlog([alone, first, second], 5),
    installations: [2],
  });
  const [overview, load] = installationsTables(result);
  expect(overview?.heads).toEqual(['measure', '1', '2']);
  expect(overview?.rows.find(([measure]) => measure === 'busiest installation')).toEqual([
    'busiest installation',
    '100 %',
    '66.7 %',
  ]);
  expect(load?.title).toBe('Load of 2');
  expect(load?.rows.map((row) => row.slice(0, 4))).toEqual([
    ['1', '5', '1', '5'],
    ['2', '5', '2', '10'],
  ]);
  const page = await htmlReport(result, { subtitle: 'fifteen jobs' });
  expect(page).toContain('in 1, 2 installations</h1>');
  expect(page).toContain('Load of 2');
});
