import { expect, test } from 'vitest';
import type { Load } from './depth.ts';
import { createReach } from './reach.ts';

const node = (pool: string, slots: number, running: number) => ({
  id: pool,
  pool,
  slots,
  running,
  tasks: {},
});
const load = (nodes: Load['nodes'], ready: Readonly<Record<string, number>> = {}, now = 0): Load => ({
  now,
  nodes,
  ready: Object.entries(ready).map(([pool, count]) => ({ pool, task: 't', version: 1, count })),
});
const all = new Map([
  ['a', true],
  ['b', true],
]);

test('a pool that has taken all that it was given, and stands idle, is given more until some of it is left', () => {
  const reach = createReach();
  expect(reach.of('a')).toBe(1);
  for (let tick = 0; tick < 4; tick += 1) {
    reach.planned(all);
    reach.saw(load([node('a', 10, 0)]));
  }
  expect(reach.of('a')).toBeCloseTo(1.25 ** 4);
  const left = (nowMs: number): number => {
    reach.saw(load([node('a', 10, 0)], { a: 1 }, nowMs));
    return reach.of('a');
  };
  expect(left(250)).toBeCloseTo(1.25 ** 4 / Math.SQRT2);
  expect(left(500)).toBeCloseTo(1.25 ** 4 / 2);
  // a clock that jumps
  expect(left(-1_000_000)).toBeCloseTo(1.25 ** 4 / 2);
  expect(left(1_000_000)).toBe(1);
});

test.each<[string, number, ReadonlyMap<string, boolean>]>([
  ['most of its slots are busy: they become free one by one', 6, all],
  ['nothing has waited for it', 0, new Map()],
  ['nothing waits for it any more', 0, new Map([['a', false]])],
])('not where %s', (_name, running, filled) => {
  const reach = createReach();
  if (filled.size > 0) reach.planned(all);
  reach.planned(filled);
  reach.saw(load([node('a', 10, running)]));
  expect(reach.of('a')).toBe(1);
});

test('each pool by itself, and never without end', () => {
  const reach = createReach();
  for (let tick = 0; tick < 50; tick += 1) {
    reach.planned(all);
    reach.saw(load([node('a', 10, 0), node('b', 10, 10)]));
  }
  expect([reach.of('a'), reach.of('b')]).toEqual([16, 1]);
  reach.saw(load([node('b', 10, 10)]));
  expect(reach.of('a')).toBe(1);
  reach.reset();
  expect(reach.of('b')).toBe(1);
});
