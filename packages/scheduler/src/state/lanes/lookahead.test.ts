import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LaneRow } from '../../testing/lanes.ts';
import { aRow, lanesOf, rowsOf } from '../../testing/lanes.ts';
import type { Lookahead } from './lookahead.ts';
import { createLookahead } from './lookahead.ts';

const ofLane = 10;
const row = (seq: number, task: string, over: Partial<LaneRow> = {}): LaneRow =>
  aRow({ wanted: ofLane, id: `job${seq}`, seq, task, ...over });

/** Returns the database's rows of a lane: its first few, and the lookahead window after the start. */
function look(skip: Lookahead, jobs: readonly LaneRow[], tick: number): readonly LaneRow[] {
  const { starts, lookahead } = skip.starts(tick);
  const start = starts['q']?.['k'];
  const behind = start === undefined ? [] : jobs.filter(({ seq }) => seq > start[1]).slice(0, lookahead);
  return [...jobs.slice(0, ofLane), ...behind.map((job) => ({ ...job, ahead: true, wanted: lookahead }))];
}

const unknown = (count: number): LaneRow[] => Array.from({ length: count }, (_, seq) => row(seq, 'unknown'));
const held = (rows: readonly LaneRow[], why = 'limit') => {
  const ids = new Set(rows.filter(({ task }) => task === 'unknown').map(({ id }) => id));
  return (id: string): string | undefined => (ids.has(id) ? why : undefined);
};
const startOf = (skip: Lookahead, tick: number) => skip.starts(tick).starts['q']?.['k'];

test('a walk comes to the job behind 5,000 held ones in a few ticks, and stays there for a while', () => {
  const skip = createLookahead();
  const jobs = [...unknown(5_000), row(5_000, 't'), row(5_001, 'unknown')];
  let ticks = 0;
  let shown: ReturnType<typeof rowsOf> = [];
  while (!shown.some(({ task }) => task === 't') && ticks < 20) {
    ticks += 1;
    const rows = look(skip, jobs, ticks);
    shown = rowsOf(skip.shown(lanesOf(rows)));
    skip.note({ lanes: lanesOf(rows), reason: held(rows), nowMs: ticks });
  }
  expect(ticks).toBeLessThanOrEqual(7);
  expect(skip.walking()).toBe(false);
  expect(shown.filter(({ ahead }) => ahead).map(({ seq }) => seq)).toEqual([5_000]);
  expect(startOf(skip, ticks + 1)).toEqual([0, 4_999]);
  expect(startOf(skip, ticks + 900)).toEqual([0, 4_999]);
  expect(startOf(skip, ticks + 2_000)).toBeUndefined();
});

test('a walk passes thousands of held jobs of as many kinds, and shows none behind one of its own', () => {
  const skip = createLookahead();
  const count = 5_000;
  const kinds = unknown(count).map((job, order) => ({ ...job, attributes: { order } }));
  const jobs = [
    ...kinds,
    ...kinds.map((job, at) => ({ ...job, id: `again${at}`, seq: count + at })),
    row(2 * count, 't'),
  ];
  const ids = new Set(jobs.slice(0, count).map(({ id }) => id));
  const behind: string[] = [];
  for (let tick = 1; tick <= 15 && behind.length === 0; tick += 1) {
    const rows = look(skip, jobs, tick);
    behind.push(
      ...rowsOf(skip.shown(lanesOf(rows))).flatMap(({ id, ahead }) => (ahead && !ids.has(id) ? [id] : [])),
    );
    skip.note({ lanes: lanesOf(rows), reason: (id) => (ids.has(id) ? 'limit' : undefined), nowMs: tick });
  }
  expect(behind).toEqual([`job${2 * count}`]);
});

test('what no node can run is one kind, whatever its attributes', () => {
  const skip = createLookahead();
  const jobs = [
    ...unknown(5_000).map((job, order) => ({ ...job, attributes: { order } })),
    row(5_000, 't', { attributes: { order: -1 } }),
  ];
  let shown: ReturnType<typeof rowsOf> = [];
  for (let tick = 1; tick <= 8 && !shown.some(({ task }) => task === 't'); tick += 1) {
    const rows = look(skip, jobs, tick);
    shown = rowsOf(skip.shown(lanesOf(rows)));
    skip.note({ lanes: lanesOf(rows), reason: held(rows, 'no_capable_node'), nowMs: tick });
  }
  expect(shown.filter(({ ahead }) => ahead).map(({ seq }) => seq)).toEqual([5_000]);
});

test('what is in front is always shown; when it can go, the walk ends', () => {
  const skip = createLookahead();
  const jobs = unknown(50);
  const first = look(skip, jobs, 1);
  skip.note({ lanes: lanesOf(first), reason: held(first), nowMs: 1 });
  const second = look(skip, jobs, 2);
  expect(rowsOf(skip.shown(lanesOf(second))).filter(({ ahead }) => !ahead)).toHaveLength(ofLane);
  skip.note({ lanes: lanesOf(second), reason: () => undefined, nowMs: 2 });
  expect(startOf(skip, 3)).toBeUndefined();
  expect(skip.walking()).toBe(false);
});

test('a lane that is gone ends its walk; so do other nodes', () => {
  const skip = createLookahead();
  const begin = (): void => {
    const rows = look(skip, unknown(50), 0);
    skip.note({ lanes: lanesOf(rows), reason: held(rows), nowMs: 0 });
  };
  begin();
  expect(skip.lanes().length + Object.keys(skip.starts(0).starts).length).toBeGreaterThan(0);
  expect(skip.walking()).toBe(true);
  for (let tick = 0; tick < 40; tick += 1) {
    skip.starts(tick);
    skip.note({ lanes: [], reason: () => 'limit', nowMs: tick });
  }
  expect(skip.walking()).toBe(false);
  begin();
  skip.reset();
  expect(skip.walking()).toBe(false);
});

test('a lane whose first jobs are not all held, or that shows all it has, is not walked', () => {
  const skip = createLookahead();
  const short = unknown(5);
  skip.note({ lanes: lanesOf(short), reason: held(short), nowMs: 0 });
  const mixed = [...unknown(9), row(9, 't')];
  skip.note({ lanes: lanesOf(mixed), reason: held(mixed), nowMs: 0 });
  expect(skip.walking()).toBe(false);
});

test('the rows that all walks of one tick cost are bounded', () => {
  const skip = createLookahead();
  const rows = Array.from({ length: 500 }, (_, key) => row(key, 'unknown', { key: `k${key}`, wanted: 1 }));
  skip.note({ lanes: lanesOf(rows), reason: () => 'limit', nowMs: 0 });
  const seen = new Set<string>();
  for (let tick = 1; tick <= 25; tick += 1) {
    const { starts, lookahead } = skip.starts(tick);
    const keys = Object.keys(starts['q'] ?? {});
    expect(keys.length * lookahead).toBeLessThanOrEqual(1_000);
    expect(skip.lanes()).toHaveLength(keys.length);
    for (const key of keys) seen.add(key);
    const behind = keys.map((key) => row(1_000, 'unknown', { key, ahead: true, wanted: lookahead }));
    skip.note({ lanes: lanesOf([...rows, ...behind]), reason: () => 'limit', nowMs: tick });
  }
  expect(seen.size).toBe(500);
});

/**
 * Property: no job is shown behind a waiting job of its own kind. Blocks of jobs of several kinds, some of
 * which each tick holds.
 */
function keepsOrder(make: () => Lookahead): fc.IProperty<unknown> {
  return fc.property(
    fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.integer({ min: 1, max: 900 })), {
      minLength: 2,
      maxLength: 8,
    }),
    fc.array(fc.uniqueArray(fc.constantFrom<string>('a', 'b', 'c', 'd')), { minLength: 5, maxLength: 30 }),
    (blocks, heldKinds) => {
      const tasks = blocks.flatMap(([task, count]) => Array.from({ length: count }, () => task));
      const skip = make();
      let jobs = tasks.map((task, seq) => row(seq, task));
      return heldKinds.every((kinds, tick) => {
        const rows = look(skip, jobs, tick);
        const shown = rowsOf(skip.shown(lanesOf(rows)));
        const going = shown.filter(({ task }) => !kinds.includes(task)).slice(0, 7);
        skip.note({
          lanes: lanesOf(rows),
          reason: (id) =>
            shown.some((job) => job.id === id && kinds.includes(job.task)) ? 'limit' : undefined,
          nowMs: tick,
        });
        const first = new Map(
          ['a', 'b', 'c', 'd'].map((task) => [task, jobs.filter((job) => job.task === task)]),
        );
        const gone = new Set<string | null>(going.map(({ id }) => id));
        jobs = jobs.filter(({ id }) => !gone.has(id));
        return [...gone].every((id) => {
          const line = first.get(going.find((job) => job.id === id)?.task ?? '') ?? [];
          return line
            .slice(
              0,
              line.findIndex((job) => job.id === id),
            )
            .every((before) => gone.has(before.id));
        });
      });
    },
  );
}

test('jobs of one kind are never shown behind a waiting one of their own', () => {
  expect(() => fc.assert(keepsOrder(createLookahead), { numRuns: 100, seed: 7 })).not.toThrow();
});

test('the property can fail: a walk that shows all it sees', () => {
  const careless = (): Lookahead => ({ ...createLookahead(), shown: (lanes) => lanes });
  expect(() => fc.assert(keepsOrder(careless), { numRuns: 100, seed: 7 })).toThrow(/Property failed/);
});
