import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { KnownJob } from '../state/lanes/known-job.ts';
import type { PlannedRow, RowParts } from './work-items.ts';
import { batchSizeOf, toRows } from './work-items.ts';
import { aJob } from '../testing/planning.ts';

interface Facts {
  readonly pool?: string;
  readonly bundle?: string | null;
  readonly job?: Partial<KnownJob>;
}

function planned(n: number, { pool = 'default', bundle = null, job = {} }: Facts = {}): PlannedRow {
  const known: KnownJob = { ...aJob('k', n), rowVersion: '1', crashes: 0, ...job };
  return { id: known.id, pool, bundle, rowVersion: '1', job: known };
}

const many = (count: number, facts: Facts = {}): readonly PlannedRow[] =>
  Array.from({ length: count }, (_, n) => planned(n + 1, facts));

type Node = RowParts['nodes'][number];

function aNode(facts: Partial<Node> = {}): Node {
  const range = { min: 1, max: 9, timeoutMs: 60_000 };
  return {
    id: 'n1',
    pool: 'default',
    slots: 1,
    tasks: { t: range, u: range },
    runs: { t: 1, u: 1 },
    ...facts,
  };
}

const partsOf = (nodes: readonly Node[], more: Partial<RowParts> = {}): RowParts => ({
  nodes,
  ready: 0,
  held: {},
  ...more,
});

const sizes = (jobs: readonly PlannedRow[], parts: RowParts): readonly number[] =>
  toRows(jobs, parts).map(({ length }) => length);

describe('how many jobs a batch has', () => {
  test('25 ms of work, by the slowest node, and never more than a hundred jobs', () => {
    expect(sizes(many(30), partsOf([aNode({ runs: { t: 2.5 } })]))).toEqual([10, 10, 10]);
    const unlike = [aNode({ runs: { t: 0.1 } }), aNode({ id: 'n2', runs: { t: 5 } })];
    expect(sizes(many(10), partsOf(unlike))).toEqual([5, 5]);
    expect(sizes(many(250), partsOf([aNode({ runs: { t: 0.001 } })]))).toEqual([100, 100, 50]);
  });

  test('up to 50 ms of work, where 25 ms is fewer than five jobs', () => {
    expect(sizes(many(10), partsOf([aNode({ runs: { t: 10 } })]))).toEqual([5, 5]);
    expect(sizes(many(8), partsOf([aNode({ runs: { t: 12.5 } })]))).toEqual([4, 4]);
    expect(sizes(many(6), partsOf([aNode({ runs: { t: 16 } })]))).toEqual([3, 3]);
    expect(sizes(many(12), partsOf([aNode({ runs: { t: 4.1 } })]))).toEqual([6, 6]);
  });

  test('half a millisecond of work for each slot, up to 50 ms, where there are more than fifty', () => {
    const of = (slots: number, ms: number): ReadonlySet<number> =>
      new Set(
        sizes(many(6_000), partsOf([aNode({ slots: slots - 1, runs: { t: ms } }), aNode({ id: 'n2' })])),
      );
    expect(of(50, 2.5)).toEqual(new Set([10]));
    expect(of(80, 2.5)).toEqual(new Set([16]));
    expect(of(100, 2.5)).toEqual(new Set([20]));
    expect(of(200, 2.5)).toEqual(new Set([20]));
    expect(of(300, 2.5)).toEqual(new Set([20]));
    expect(of(200, 20)).toEqual(new Set([5])); // 100 ms, as fewer than five jobs would be in 50
    expect(of(200, 40)).toEqual(new Set([2]));
  });

  test('slots that are wanted are counted by the size of few slots, however many there are', () => {
    const wanted = (slots: number): number =>
      batchSizeOf('default', 't', [aNode({ slots, runs: { t: 10 } })]);
    expect([wanted(1), wanted(50), wanted(200), wanted(5_000)]).toEqual([5, 5, 5, 5]);
    expect(batchSizeOf('default', 't', [aNode({ runs: {} })])).toBe(1);
    expect(batchSizeOf('default', 't', [])).toBe(1);
  });

  test('one, where no node has measured the task, or two of its runs are more than that', () => {
    expect(sizes(many(3), partsOf([aNode({ runs: {} })]))).toEqual([1, 1, 1]);
    expect(sizes(many(3), partsOf([aNode({ runs: { t: 25.1 } })]))).toEqual([1, 1, 1]);
    expect(sizes(many(4), partsOf([aNode({ runs: { t: 25 } })]))).toEqual([2, 2]);
    expect(sizes(many(3), partsOf([]))).toEqual([1, 1, 1]);
  });

  test('what is there is spread over all slots first; what is ready already counts', () => {
    expect(sizes(many(8), partsOf([aNode({ slots: 4 })]))).toEqual([2, 2, 2, 2]);
    expect(sizes(many(4), partsOf([aNode({ slots: 4 })]))).toEqual([1, 1, 1, 1]);
    expect(sizes(many(4), partsOf([aNode({ slots: 2 }), aNode({ id: 'n2', slots: 2 })]))).toEqual([
      1, 1, 1, 1,
    ]);
    expect(sizes(many(4), partsOf([aNode({ slots: 4 })], { ready: 4 }))).toEqual([2, 2]);
  });

  test('but no thinner than 1 ms of work', () => {
    const runs = { t: 0.25 };
    expect(sizes(many(8), partsOf([aNode({ slots: 8, runs })]))).toEqual([4, 4]);
    expect(sizes(many(32), partsOf([aNode({ slots: 4, runs })]))).toEqual([8, 8, 8, 8]);
  });

  test('slots of other pools, and of nodes that do not know the task, are none', () => {
    const nodes = [
      aNode(),
      aNode({ id: 'n2', pool: 'other', slots: 10 }),
      aNode({ id: 'n3', tasks: {}, slots: 10 }),
    ];
    expect(sizes(many(8), partsOf(nodes))).toEqual([8]);
  });

  test('one, as long as any node of the pool takes bundles of the task, or isolates it', () => {
    for (const how of [{ batch: true }, { isolated: true }]) {
      const tasks = { t: { min: 1, max: 1, timeoutMs: 60_000, ...how } };
      expect(sizes(many(3), partsOf([aNode(), aNode({ id: 'n2', tasks })]))).toEqual([1, 1, 1]);
    }
  });
});

describe('what goes alone', () => {
  test.each<[string, Facts]>([
    ['a suspect', { job: { crashes: 1 } }],
    ['a job that expires', { job: { expiresMs: 5 } }],
    ['a job of a bundle', { bundle: 'k1' }],
  ])('%s; those around it stay together', (_what, facts) => {
    const jobs = [planned(1), planned(2), planned(3, facts), planned(4)];
    expect(toRows(jobs, partsOf([aNode()])).map((row) => row.map(({ id }) => id))).toEqual([
      ['k1', 'k2', 'k4'],
      ['k3'],
    ]);
  });

  test('a job of which nothing is known', () => {
    const jobs = [planned(1), { ...planned(2), job: undefined }, planned(3)];
    expect(sizes(jobs, partsOf([aNode()]))).toEqual([2, 1]);
  });

  test('jobs of a queue of which a rule holds others; not where only places are missing', () => {
    const held = (reason: string): RowParts => partsOf([aNode()], { held: { default: { [reason]: 2 } } });
    expect(sizes(many(3), held('concurrency'))).toEqual([1, 1, 1]);
    for (const reason of ['no_free_slot', 'no_capable_node', 'batch_full', 'paused_queue'])
      expect(sizes(many(3), held(reason))).toEqual([3]);
    expect(sizes(many(3), partsOf([aNode()], { held: { other: { concurrency: 2 } } }))).toEqual([3]);
  });
});

test('jobs of other tasks, versions and pools are in other batches, each of which keeps the order', () => {
  const nodes = [aNode(), aNode({ id: 'n2', pool: 'other' })];
  const jobs = [
    planned(1),
    planned(2, { job: { task: 'u' } }),
    planned(3),
    planned(4, { job: { version: 2 } }),
    planned(5, { pool: 'other' }),
    planned(6, { job: { task: 'u' } }),
    planned(7),
  ];
  const rows = toRows(jobs, partsOf(nodes));
  expect(rows.map((row) => row.map(({ id }) => id))).toEqual([
    ['k1', 'k3', 'k7'],
    ['k2', 'k6'],
    ['k4'],
    ['k5'],
  ]);
});

test('the jobs of a bundle are one item, whatever they take, and no other joins it', () => {
  const bundled = (seq: number, bundle: string | null): PlannedRow => planned(seq, { bundle });
  const jobs = [bundled(1, 'a'), bundled(2, 'a'), bundled(3, 'b'), bundled(4, 'b'), planned(5), planned(6)];
  expect(toRows(jobs, partsOf([aNode()])).map((row) => row.map(({ bundle }) => bundle))).toEqual([
    ['a', 'a'],
    ['b', 'b'],
    [null, null],
  ]);
});

test('items are numbered only where some have several jobs', () => {
  const [alone, together] = [many(2), many(2)];
  toRows(alone, partsOf([]));
  toRows(together, partsOf([aNode()]));
  expect([alone, together].map((jobs) => jobs.map(({ row }) => row))).toEqual([
    [undefined, undefined],
    [1, 1],
  ]);
});

test('whatever is planned: each job once, those of a kind in their order, numbered along the rows, in none that is too large', () => {
  const fact = fc.record({
    pool: fc.constantFrom('default', 'other'),
    job: fc.record({
      task: fc.constantFrom('t', 't', 'u', 'unknown'),
      version: fc.constantFrom(1, 1, 2),
      crashes: fc.constantFrom(0, 0, 0, 1),
      queue: fc.constantFrom('default', 'limited'),
    }),
  });
  const ms = fc.constantFrom(0.01, 1, 6, 20, 400);
  fc.assert(
    fc.property(
      fc.array(fact, { maxLength: 150 }),
      ms,
      fc.integer({ min: 1, max: 40 }),
      (facts, t, slots) => {
        const jobs = facts.map((one, n) => planned(n + 1, one));
        const nodes = [
          aNode({ slots, runs: { t, u: 1 } }),
          aNode({ id: 'n2', pool: 'other', runs: { t: 2 } }),
        ];
        const rows = toRows(jobs, partsOf(nodes, { held: { limited: { rate: 1 } } }));
        const kind = ({ pool, job }: PlannedRow): string => `${pool} ${job?.task} ${job?.version}`;
        expect(
          rows
            .flat()
            .map(({ id }) => id)
            .toSorted(),
        ).toEqual(jobs.map(({ id }) => id).toSorted());
        for (const row of rows) {
          expect(new Set(row.map(kind)).size).toBe(1);
          expect(row.map(({ job }) => job?.seq)).toEqual(
            row.map(({ job }) => job?.seq ?? 0).toSorted((a, b) => a - b),
          );
          if (row.length === 1) continue;
          const [first] = row;
          const runMs = first?.job?.task === 'u' ? 1 : first?.pool === 'other' ? 2 : t;
          expect(row.length).toBeLessThanOrEqual(
            Math.min(100, Math.max(25 / runMs, Math.min(5, 50 / runMs))),
          );
          expect(row.every(({ job }) => job?.crashes === 0 && job.queue === 'default')).toBe(true);
        }
        const several = rows.length < jobs.length;
        expect(rows.flatMap((row) => row.map((one) => one.row))).toEqual(
          rows.flatMap((row, index) => row.map(() => (several ? index + 1 : undefined))),
        );
      },
    ),
  );
});
