import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { counter } from './actor-counter.ts';
import { payloadOf } from '../load.ts';
import { faultsOf, tallyOf } from '../works/measure.ts';

let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'pgqueue-bench-counter-'));
  vi.stubEnv('PGQUEUE_BENCH_SCRATCH', scratch);
});
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(scratch, { recursive: true, force: true });
});

const order = {
  kind: 'work',
  wish: { setting: 'x' },
  handling: { kind: 'nothing' },
  remember: 'nothing',
} as const;

function counted(ran: readonly number[], keys?: number): ReturnType<ReturnType<typeof counter>['counted']> {
  const count = counter({ ...order, capacity: 10, ...(keys === undefined ? {} : { keys }) });
  for (const n of ran) void count.runner.handle(payloadOf(n));
  return count.counted();
}

test('every job once, in one process or two, is no fault', () => {
  const tally = tallyOf([counted([0, 1, 2]), counted([4, 3])]);
  expect(tally).toMatchObject({ runs: 5, distinct: 5 });
  expect(faultsOf(tally, { jobs: 5, left: false })).toEqual([]);
});

test('a job that is lost, run twice anywhere or left over is a fault', () => {
  expect(faultsOf(tallyOf([counted([0, 1])]), { jobs: 3, left: true })).toEqual([
    '1 of 3 jobs did not run',
    'jobs are left over',
  ]);
  expect(faultsOf(tallyOf([counted([0, 0, 1])]), { jobs: 2, left: false })).toEqual(['1 runs too many']);
  expect(faultsOf(tallyOf([counted([0, 1]), counted([1])]), { jobs: 2, left: false })).toEqual([
    '1 runs too many',
  ]);
});

test('it remembers how long each job waited, or when it ended', async () => {
  const waited = counter({ ...order, capacity: 4, remember: 'waited' });
  void waited.runner.handle(payloadOf(2, performance.timeOrigin * 1_000));
  const [waits] = tallyOf([waited.counted()]).remembered;
  expect(waits?.[2]).toBeGreaterThan(0);
  expect(waits?.[1]).toBe(0);
  const slept = counter({
    ...order,
    capacity: 4,
    remember: 'ended',
    handling: { kind: 'sleep', ms: 1 },
    watchFrom: 3,
  });
  await Promise.all([slept.runner.handle(payloadOf(0)), slept.runner.handle(payloadOf(3))]);
  expect(slept.watched()).toBe(1);
  expect(tallyOf([slept.counted()]).remembered[0]?.[3]).toBeGreaterThan(0);
});

test('of flows, only the last jobs are counted separately', () => {
  const count = counter({ ...order, capacity: 6, watchFrom: 0, watchEvery: 3 });
  for (const n of [0, 1, 2, 3, 4]) void count.runner.handle(payloadOf(n));
  expect(count.watched()).toBe(1);
});

test('claims are told with when they ended', () => {
  const count = counter({ ...order, capacity: 1 });
  count.runner.claimed(3);
  count.runner.claimed(4);
  expect(tallyOf([count.counted()]).claims.map(({ ms }) => ms)).toEqual([3, 4]);
});
