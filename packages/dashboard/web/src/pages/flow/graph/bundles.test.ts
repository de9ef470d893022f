import { expect, test } from 'vitest';
import { bundlesOf, isIn } from './bundles.ts';
import type { Layout, Line } from './layout.ts';

const sizes = { width: 10, height: 10, between: 5, below: 5, layers: 50, edge: 0 };

/** One step, `parts` that need it, and one that needs all of them but for the first. */
function fan(parts: number): Pick<Layout, 'lines' | 'layers' | 'places' | 'sizes'> {
  const step = {} as never;
  const numbers = Array.from({ length: parts }, (_, n) => n + 1);
  const places = new Map([
    [0, { step, x: 0, y: 0 }],
    ...numbers.map((n) => [n, { step, x: 60, y: (n - 1) * 15 }] as const),
    [parts + 1, { step, x: 120, y: 0 }],
  ]);
  const lines = [
    ...numbers.map((n): Line => ({ from: 0, to: n, condition: 'done' })),
    ...numbers.slice(1).map((n): Line => ({ from: n, to: parts + 1, condition: 'ended' })),
  ];
  return { lines, layers: [[0], numbers, [parts + 1]], places, sizes };
}

test('a few lines stay single', () => {
  const { bundles, single } = bundlesOf(fan(10));
  expect(bundles).toEqual([]);
  expect(single).toHaveLength(19);
});

test('many lines between a step and a layer become one', () => {
  const { bundles, single } = bundlesOf(fan(1_500));
  expect(single).toEqual([]);
  expect(bundles).toMatchObject([
    { condition: 'done', count: 1_500, bar: { x: 54, top: 0, bottom: 1_499 * 15 + 10 }, x1: 10, x2: 54 },
    { condition: 'ended', count: 1_499, bar: { x: 76 }, x1: 76, y1: 5, x2: 120, y2: 5 },
  ]);
  const [first] = bundles;
  if (first === undefined) throw new Error('no bundle');
  expect(isIn(first, { left: 0, top: 9_000, right: 100, bottom: 9_100 })).toBe(true);
  expect(isIn(first, { left: 200, top: 0, right: 300, bottom: 100 })).toBe(false);
});
