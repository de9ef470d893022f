import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { judge } from '../../proofs/judge.ts';
import type { RecordedItem } from '../../proofs/recorder.ts';
import { record } from '../../proofs/recorder.ts';
import type { World } from '../../proofs/worlds.ts';
import { play, worlds } from '../../proofs/worlds.ts';
import { useDatabase } from '../../support/database.ts';

const runs = Number(process.env['PGQUEUE_TEST_WORLDS'] ?? 4);
const seed = Number(process.env['PGQUEUE_TEST_SEED'] ?? 20_261);
const own = useDatabase();
beforeAll(() => record(own.database));

test(
  'any arrivals, weights, limits, rates and crashes: limits and rates hold, keys keep their order, nothing starves',
  async () => {
    await fc.assert(
      fc.asyncProperty(worlds, async (world) => {
        const report = await play(own.url, world);
        expect(report.breaches).toEqual([]);
        expect(report.jobs).toBeGreaterThan(0);
      }),
      { numRuns: runs, seed, endOnFailure: true },
    );
  },
  30_000 + runs * 60_000,
);

describe('each property can fail', () => {
  const world: World = {
    limit: 2,
    rate: null,
    keyConcurrency: null,
    weights: null,
    slots: 4,
    arrivals: [],
    upsets: [],
  };
  const item = (n: number, more: Partial<RecordedItem> = {}): RecordedItem => ({
    id: `job-${n}`,
    position: n,
    queue: 'queue-0',
    key: 'k',
    task: 'work',
    priority: 0,
    seq: n,
    tenant: `tenant-${n}`,
    tries: 0,
    leases: 1,
    insertedMs: 1_000 + n * 10,
    dispatchedMs: 1_000 + n * 10,
    leasedMs: 1_000 + n * 10,
    endedMs: 1_005 + n * 10,
    ...more,
  });
  const created = new Map([1, 2, 3].map((n) => [`job-${n}`, 1_000 + n]));
  const judged = (items: readonly RecordedItem[], other: Partial<World> = {}): readonly string[] =>
    judge({ ...world, ...other }, items, { created }).breaches;

  test.each<[string, readonly RecordedItem[], Partial<World>, string]>([
    ['a limit', [1, 2, 3].map((n) => item(n, { tenant: 'x', endedMs: 2_000 })), {}, 'tenant x: 3 of 2'],
    [
      'a limit of keys',
      [1, 2].map((n) => item(n, { endedMs: 2_000 })),
      { keyConcurrency: 1 },
      'key queue-0 k: 2 of 1',
    ],
    ['a rate', [1, 2, 3].map((n) => item(n)), { rate: { perSecond: 10, burst: 1 } }, 'rate: 1.8'],
    ['one item', [item(1, { endedMs: null }), item(2, { id: 'job-1' })], {}, 'twice: job-1'],
    [
      'the order',
      [item(1, { position: 9, insertedMs: 9_000, dispatchedMs: 9_000 }), item(2, { dispatchedMs: 5_000 })],
      {},
      'order: queue-0 k seq 1',
    ],
  ])('%s', (_name, items, other, breach) => {
    expect(judged(items, other).join()).toContain(breach);
  });

  test('a slot that stays free', () => {
    const late = [item(1), item(2, { insertedMs: 9_000, endedMs: 9_001 })];
    expect(judge(world, late, { created }).idleMs).toBeGreaterThan(1_000);
  });
});
