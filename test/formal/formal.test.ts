import { describe, expect, test } from 'vitest';
import { lacks } from '../support/tools.ts';
import { explore } from './spin.ts';
import { variants } from './variants.ts';

const name = ({ model, defines }: (typeof variants)[number]): string => [model, ...defines].join(' ');

// compilers and searches, which are processes of their own
describe.skipIf(lacks('spin'))('formal models', { timeout: 900_000 }, () => {
  const holding = variants.filter((variant) => variant.expect === 'holds');
  const failing = variants.filter((variant) => variant.expect !== 'holds');

  test.concurrent.each(holding.map((variant) => [name(variant), variant] as const))(
    '%s holds',
    async (_name, variant) => {
      const { verdict, states } = await explore(variant);
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
