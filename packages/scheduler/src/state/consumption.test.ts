import { expect, test } from 'vitest';
import type { Load } from './consumption.ts';
import { measureConsumption, poolsSeen } from './consumption.ts';

const node = (
  id: string,
  slots: number,
  running: number,
  {
    task = 't',
    runs = {},
  }: { readonly task?: string; readonly runs?: Readonly<Record<string, number>> } = {},
): Load['nodes'][number] => ({
  id,
  pool: 'default',
  slots,
  running,
  tasks: { [task]: { min: 1, max: 1, timeoutMs: null } },
  runs,
});

const overview = (over: Partial<Load>): Load => ({
  now: 0,
  nodes: [],
  items: [],
  ...over,
});

const kind = { pool: 'default', task: 't', version: 1 };
const items = (ready: number, inFlight = ready) => [{ ...kind, ready, inFlight }];

test('depth is the free slots of nodes that can run the same; one that is overfull takes nothing from others', () => {
  const nodes = [node('a', 5, 2), node('b', 5, 9), node('c', 4, 0, { task: 'u' })];
  const running = { ...kind, task: 'u', ready: 0, inFlight: 1 };
  const pools = poolsSeen(overview({ nodes, items: [...items(2), running] }), [], 150);
  expect(pools['default']?.groups.map(({ slots, depth }) => ({ slots, depth }))).toEqual([
    { slots: 10, depth: 3 },
    { slots: 4, depth: 4 },
  ]);
  expect(pools['default']?.ready).toEqual([{ task: 't', version: 1, count: 2 }]);
});

test('depth grows with what ends within the horizon, and only for those whose jobs end', () => {
  const consumption = measureConsumption();
  consumption.sample(overview({ now: 0 }));
  for (let now = 10; now <= 3_000; now += 10) {
    consumption.dispatched(Array.from({ length: 20 }, () => kind));
    consumption.sample(overview({ now }));
  }
  expect(consumption.rates()[0]?.perSecond).toBeCloseTo(2_000, -2);
  const nodes = [node('a', 10, 10), node('c', 4, 4, { task: 'u' })];
  const pools = poolsSeen(overview({ nodes }), consumption.rates(), 100);
  expect(pools['default']?.groups.map(({ depth }) => depth)).toEqual([199, 0]);
});

test('a clock that was set back, and a write whose outcome is unknown, say nothing about the rate', () => {
  const consumption = measureConsumption();
  consumption.sample(overview({ now: 1_000, items: items(100) }));
  consumption.sample(overview({ now: 900, items: items(0) }));
  consumption.dispatched(Array.from({ length: 50 }, () => kind));
  consumption.forget();
  consumption.sample(overview({ now: 1_100 }));
  expect(consumption.rates().every(({ perSecond }) => perSecond === 0)).toBe(true);
});

/**
 * Lets a node with 10 slots work off a backlog, whose jobs end together `roundMs` after their dispatch, and
 * returns how many each tick dispatched. `busy`: slots that the jobs hold meanwhile.
 */
function rounds(
  count: number,
  how: { readonly runMs?: number; readonly roundMs?: number; readonly busy?: number },
) {
  const { runMs, roundMs = 5, busy = 0 } = how;
  const consumption = measureConsumption();
  const nodes = [node('a', 10, busy, { runs: runMs === undefined ? {} : { t: runMs } })];
  const dispatched: number[] = [];
  for (let round = 0; round < count; round += 1) {
    const load = overview({ now: 1_000 + round * roundMs, nodes });
    consumption.sample(load);
    const depth = poolsSeen(load, consumption.rates(), 50)['default']?.groups[0]?.depth ?? 0;
    dispatched.push(depth);
    consumption.dispatched([{ ...kind, count: depth }]);
  }
  return dispatched;
}

test('while nodes find nothing ready, the depth of a short task about doubles from tick to tick', () => {
  const depths = rounds(8, { runMs: 0.01 });
  for (const [round, depth] of depths.entries()) {
    if (round < 2) continue;
    const before = depths[round - 1] ?? 0;
    expect(depth).toBeGreaterThan(1.5 * before);
    expect(depth).toBeLessThan(2.5 * before);
  }
});

test('it grows no further than what the slots can do within the horizon', () => {
  // 10 slots, 20 ms a job: 500 a second, 25 within the horizon, besides the free slots; the rest is smoothing
  expect(Math.max(...rounds(6, { runMs: 20 }))).toBeLessThan(60);
  expect(Math.max(...rounds(6, { runMs: 0.01 }))).toBeGreaterThan(150);
});

test('a task that is not measured, or whose slots are all busy, does not grow at once', () => {
  expect(Math.max(...rounds(4, {}))).toBeLessThan(20);
  expect(Math.max(...rounds(4, { runMs: 0.01, busy: 10 }))).toBe(0);
});

test('what ends together counts for the whole time since the last end, not since the last sample', () => {
  const consumption = measureConsumption();
  const nodes = [node('a', 10, 9, { runs: { t: 1 } })];
  consumption.sample(overview({ now: 1_000, nodes }));
  consumption.dispatched([{ ...kind, count: 100 }]);
  for (let now = 1_001; now < 1_100; now += 1)
    consumption.sample(overview({ now, nodes, items: items(0, 100) }));
  consumption.sample(overview({ now: 1_100, nodes }));
  // 100 in 100 ms
  expect(consumption.rates()[0]?.perSecond).toBeLessThanOrEqual(1_000);
});
