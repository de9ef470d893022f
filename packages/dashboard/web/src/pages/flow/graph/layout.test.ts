import { describe, expect, test } from 'vitest';
import type { FlowStep, NeedCondition } from '../../../../../src/contract.ts';
import type { Sizes } from './layout.ts';
import { layoutOf, linesIn, nextTo, pathOf, placesIn } from './layout.ts';

const sizes: Sizes = { width: 200, height: 60, between: 20, below: 10, layers: 80, edge: 10 };

function stepOf(
  step: number,
  needs: readonly number[],
  layer: number,
  condition: NeedCondition = 'done',
): FlowStep {
  return {
    step,
    name: `step ${step}`,
    kind: 'jobs',
    state: 'blocked',
    outcome: null,
    needs: needs.map((needed) => [needed, condition]),
    wants: 'all',
    layer,
    added: 1,
    done: 0,
    dead: 0,
    other: 0,
    stopAfter: null,
    stopping: false,
    signalled: false,
    delayMs: null,
    due: null,
    opened: null,
    ended: null,
  };
}

const diamond = [stepOf(0, [], 0), stepOf(1, [0], 1), stepOf(2, [0], 1), stepOf(3, [1, 2], 2)];

describe('a layout', () => {
  test('puts layers side by side, and centres them', () => {
    const { places, width, height, layers } = layoutOf(diamond, sizes);
    expect([...places].map(([step, { x, y }]) => [step, x, y])).toEqual([
      [0, 10, 45],
      [1, 290, 10],
      [2, 290, 80],
      [3, 570, 45],
    ]);
    expect({ width, height }).toEqual({ width: 780, height: 150 });
    expect(layers).toEqual([[0], [1, 2], [3]]);
  });

  test('orders a layer by what it needs, so that lines do not cross', () => {
    const steps = [stepOf(0, [], 0), stepOf(1, [], 0), stepOf(2, [1], 1), stepOf(3, [0], 1)];
    expect(layoutOf(steps, sizes).layers).toEqual([
      [0, 1],
      [3, 2],
    ]);
  });

  test('makes a large layer a square', () => {
    const steps = [
      stepOf(0, [], 0),
      ...Array.from({ length: 2_000 }, (_, n) => stepOf(n + 1, [0], 1)),
      stepOf(
        2_001,
        Array.from({ length: 2_000 }, (_, n) => n + 1),
        2,
      ),
    ];
    const layout = layoutOf(steps, sizes);
    expect(layout.height).toBeLessThan(6_000);
    expect(layout.width).toBeLessThan(7_000);
    const corners = new Set([...layout.places.values()].map(({ x, y }) => `${x} ${y}`));
    expect(corners.size).toBe(2_002);
    const box = { left: 0, top: 0, right: 1_200, bottom: 600 };
    expect(placesIn(layout, box).length).toBeLessThan(60);
    const { drawn, all } = linesIn(layout, box, 100);
    expect(drawn).toHaveLength(100);
    expect(all).toBeGreaterThan(1_000);
  });

  test('takes ten thousand steps and a hundred thousand needs', () => {
    const steps = Array.from({ length: 10_000 }, (_, n) => {
      const layer = Math.floor(n / 100);
      const needs =
        layer === 0 ? [] : Array.from({ length: 10 }, (_, k) => (layer - 1) * 100 + ((n * 7 + k * 13) % 100));
      return stepOf(n, [...new Set(needs)], layer);
    });
    const layout = layoutOf(steps, sizes);
    expect(layout.places.size).toBe(10_000);
    const { drawn, all } = linesIn(layout, { left: 0, top: 0, right: 4_000, bottom: 1_000 }, 2_000);
    expect(drawn).toHaveLength(2_000);
    expect(all).toBeLessThan(layout.lines.length / 5);
  });

  test('leads from step to step by keys', () => {
    const layout = layoutOf(diamond, sizes);
    expect(nextTo(layout, 0, 'right')).toBe(1);
    expect(nextTo(layout, 1, 'down')).toBe(2);
    expect(nextTo(layout, 2, 'up')).toBe(1);
    expect(nextTo(layout, 3, 'left')).toBe(1);
    expect(nextTo(layout, 3, 'right')).toBe(3);
  });

  test('draws lines from left to right', () => {
    const { drawn } = linesIn(layoutOf(diamond, sizes), { left: 0, top: 0, right: 9e9, bottom: 9e9 }, 9);
    expect(drawn).toHaveLength(4);
    for (const line of drawn) {
      expect(line.x2).toBeGreaterThan(line.x1);
      expect(pathOf(line)).toMatch(/^M[\d.]+ [\d.]+C/);
    }
  });
});
