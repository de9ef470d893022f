import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nestingMax, shapeProblem } from './shape.ts';
import { jobLimits } from './validate.ts';

const nested = (depth: number): unknown =>
  JSON.parse(`${'{"a":['.repeat(depth / 2)}${']}'.repeat(depth / 2)}`);

test('the limit is the one that is told', () => {
  expect(jobLimits.payloadDepthMax).toBe(nestingMax);
});

test('plain values, wide and deep, are fine', () => {
  for (const value of [null, 1, 'text', [], {}, { a: [{ b: 1 }] }, nested(nestingMax)]) {
    expect(shapeProblem(value)).toBeUndefined();
  }
  expect(shapeProblem(Array.from({ length: 100_000 }, () => ({})))).toBeUndefined();
});

test('a level more is refused, and 200,000 without a stack overflow', () => {
  for (const depth of [nestingMax + 2, 200_000]) {
    expect(shapeProblem(nested(depth))).toContain(`deeper than ${nestingMax}`);
  }
});

test('a forbidden key is found wherever it stands; texts of that name are fine', () => {
  const holders = fc.jsonValue({ maxDepth: 4 }).filter((value) => shapeProblem(value) === undefined);
  const wrap = fc.constantFrom<(inner: unknown) => unknown>(
    (inner) => [1, inner],
    (inner) => ({ a: 1, b: inner }),
    (inner) => [[], { c: [inner] }],
  );
  const key = fc.constantFrom('__proto__', 'constructor');
  fc.assert(
    fc.property(holders, fc.array(wrap, { maxLength: 20 }), key, (beside, wraps, name) => {
      const below = name === 'constructor' ? { prototype: beside } : beside;
      const found = JSON.parse(`{"${name}": ${JSON.stringify(below)}}`) as unknown;
      expect(shapeProblem(wraps.reduce<unknown>((inner, around) => around(inner), found))).toContain(name);
      expect(
        shapeProblem(wraps.reduce<unknown>((inner, around) => around(inner), { a: name })),
      ).toBeUndefined();
    }),
  );
});

test('a constructor without a prototype is a word like others', () => {
  for (const value of ['"McLaren"', 'null', '[1]', '{"name": "McLaren", "constructor": {"prototypes": 2}}']) {
    expect(shapeProblem(JSON.parse(`{"race": [{"constructor": ${value}}]}`))).toBeUndefined();
  }
});
