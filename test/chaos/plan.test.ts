import { expect, test } from 'vitest';
import { planFaults } from './plan.ts';

const kinds = ['a', 'b', 'c', 'd', 'e'].map((kind) => ({ kind, lastsMs: [100, 200] as const }));
const options = { seed: 1, ms: 600_000, kinds, everyMs: 6_000 };

test('a seed repeats its plan, another has another', () => {
  expect(planFaults(options)).toEqual(planFaults(options));
  expect(planFaults({ ...options, seed: 2 })).not.toEqual(planFaults(options));
});

test('all kinds come alike, within the time, in order', () => {
  const plan = planFaults(options);
  expect(plan.length).toBeGreaterThan(80);
  const counts = [...Map.groupBy(plan, ({ kind }) => kind).values()].map(({ length }) => length);
  expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
  expect(plan.every(({ atMs, lastsMs }) => atMs < 600_000 && lastsMs >= 100 && lastsMs <= 200)).toBe(true);
  expect(plan.map(({ atMs }) => atMs)).toEqual(plan.map(({ atMs }) => atMs).toSorted((a, b) => a - b));
  expect(new Set(plan.map(({ alone }) => alone))).toEqual(new Set([true, false]));
  expect(planFaults({ ...options, mixed: true }).some(({ alone }) => alone)).toBe(false);
});

test('without kinds there are no faults', () => {
  expect(planFaults({ ...options, kinds: [] })).toEqual([]);
});
