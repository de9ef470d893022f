import { describe, expect, test } from 'vitest';
import { lacks } from '../support/tools.ts';
import { explore } from './spin.ts';
import { variants } from './variants.ts';

const name = ({ model, defines }: (typeof variants)[number]): string => [model, ...defines].join(' ');

describe.skipIf(lacks('spin'))('formal models', () => {
  const holding = variants.filter((variant) => variant.expect === 'holds');
  const failing = variants.filter((variant) => variant.expect !== 'holds');

  test.each(holding.map((variant) => [name(variant), variant] as const))(
    '%s holds',
    async (_name, variant) => {
      const { verdict, states } = await explore(variant);
      expect(verdict).toBe('holds');
      expect(states).toBeGreaterThan(1_000);
    },
  );

  test.each(failing.map((variant) => [name(variant), variant] as const))(
    '%s fails',
    async (_name, variant) => {
      const { verdict } = await explore(variant);
      expect(verdict).toBe(variant.expect);
    },
  );
});
