import { expect, test } from 'vitest';
import type { Load } from './consumption.ts';
import { measureConsumption, poolsSeen } from './consumption.ts';

const node = (id: string, slots: number, running: number, task = 't'): Load['nodes'][number] => ({
  id,
  pool: 'default',
  slots,
  running,
  tasks: { [task]: { min: 1, max: 1, timeoutMs: null } },
  runs: {},
});

const overview = (over: Partial<Load>): Load => ({
  now: 0,
  nodes: [],
  ready: [],
  ...over,
});

const ready = (count: number) => [{ pool: 'default', task: 't', version: 1, count }];

test('depth is the free slots of nodes that can run the same; one that is overfull takes nothing from others', () => {
  const nodes = [node('a', 5, 2), node('b', 5, 9), node('c', 4, 0, 'u')];
  const pools = poolsSeen(overview({ nodes, ready: ready(2) }), [], 150);
  expect(pools['default']?.groups.map(({ slots, depth }) => ({ slots, depth }))).toEqual([
    { slots: 10, depth: 3 },
    { slots: 4, depth: 4 },
  ]);
  expect(pools['default']?.ready).toEqual([{ task: 't', version: 1, count: 2 }]);
});

test('depth grows with what is consumed within the horizon, and only for those who consume it', () => {
  const consumption = measureConsumption();
  consumption.sample(overview({ now: 0 }));
  for (let now = 10; now <= 3_000; now += 10) {
    consumption.dispatched(Array.from({ length: 20 }, () => ({ pool: 'default', task: 't', version: 1 })));
    consumption.sample(overview({ now }));
  }
  expect(consumption.rates()[0]?.perSecond).toBeCloseTo(2_000, -2);
  const nodes = [node('a', 10, 10), node('c', 4, 4, 'u')];
  const pools = poolsSeen(overview({ nodes }), consumption.rates(), 100);
  expect(pools['default']?.groups.map(({ depth }) => depth)).toEqual([199, 0]);
});

test('a clock that was set back, and a write whose outcome is unknown, say nothing about the rate', () => {
  const consumption = measureConsumption();
  consumption.sample(overview({ now: 1_000, ready: ready(100) }));
  consumption.sample(overview({ now: 900, ready: ready(0) }));
  consumption.dispatched(Array.from({ length: 50 }, () => ({ pool: 'default', task: 't', version: 1 })));
  consumption.forget();
  consumption.sample(overview({ now: 1_100 }));
  expect(consumption.rates().every(({ perSecond }) => perSecond === 0)).toBe(true);
});
