import { afterAll, describe, expect, test } from 'vitest';
import { lacks } from '../support/tools.ts';
import { explore } from './spin.ts';
import { larger, variants } from './variants.ts';

const name = ({ model, defines }: (typeof variants)[number]): string => [model, ...defines].join(' ');

// compilers and searches, which are processes of their own
describe.skipIf(lacks('spin'))('formal models', { timeout: 900_000 }, () => {
  const holding = [...variants, ...larger].filter((variant) => variant.expect === 'holds');
  let total = 0;
  afterAll(() => console.log(`${total} states of models that hold`));
  const failing = variants.filter((variant) => variant.expect !== 'holds');

  test.concurrent.each(holding.map((variant) => [name(variant), variant] as const))(
    '%s holds',
    async (_name, variant) => {
      const { verdict, states } = await explore(variant);
      total += states;
      expect(verdict).toBe('holds');
      expect(states).toBeGreaterThan(1_000);
    },
  );

  test.concurrent.each(failing.map((variant) => [name(variant), variant] as const))(
    '%s fails',
    async (_name, variant) => {
      const { verdict } = await explore(variant);
      expect(verdict).toBe(variant.expect);
    },
  );
});
