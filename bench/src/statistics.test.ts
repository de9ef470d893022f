import { expect, test } from 'vitest';
import { mean, percentile, perSecond, spreadOf } from './statistics.ts';

test('median and range leave out what was not measured', () => {
  expect(spreadOf([3, NaN, 1, 2])).toEqual({ median: 2, min: 1, max: 3, count: 3 });
  expect(spreadOf([4, 1])).toMatchObject({ median: 2.5 });
  expect(spreadOf([NaN])).toEqual({ median: NaN, min: NaN, max: NaN, count: 0 });
});

test('percentiles lie on straight lines between neighbours', () => {
  const values = Float64Array.from({ length: 101 }, (_, index) => 100 - index);
  expect(percentile(values, 0.99)).toBe(99);
  expect(percentile([1, 2], 0.25)).toBe(1.25);
  expect(percentile([], 0.5)).toBeNaN();
});

test('a count becomes a rate for each second', () => {
  const samples = [0, 500, 1_000, 2_000, 3_000].map((atMs) => ({ atMs, value: atMs / 10 }));
  expect(perSecond(samples, 0, 3_000)).toEqual([100, 100, 100]);
  expect(perSecond(samples, 1_000, 2_999)).toEqual([100]);
  expect(perSecond([{ atMs: 5, value: 7 }], 0, 2_000)).toEqual([0, 0]);
  expect(perSecond([], 0, 500)).toEqual([]);
});

test('a mean of nothing is no number', () => {
  expect(mean([1, 2, 6])).toBe(3);
  expect(mean([])).toBeNaN();
});
