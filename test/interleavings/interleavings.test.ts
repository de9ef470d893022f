import { openDatabase } from '@pgqueue/postgres/internal';
import { describe, expect, test } from 'vitest';
import { seed } from '../seeded-bugs/sql.ts';
import { useDatabase } from '../support/database.ts';
import type { Choice, WorldName } from './all.ts';
import { interleave } from './all.ts';
import { mistakes } from './mistakes.ts';

const database = useDatabase({ each: true });

/** Primes: every pair is among them, and with each seed other orders. */
test.each<[WorldName, number, number]>([
  ['jobs', 131, 171],
  ['batches', 211, 406],
])(
  '%s: a share of all interleavings of every pair: the outcome is that of one after the other',
  async (world, every, all) => {
    const from = Math.floor(Math.random() * every);
    const { violations, pairs, cases, waited } = await interleave(database.url, { world, every, from });
    expect({ from, violations }).toEqual({ from, violations: [] });
    expect(pairs).toBe(all);
    expect(cases).toBeGreaterThan(400);
    expect(waited).toBeGreaterThan(50);
  },
  600_000,
);

test('a node that ends, or has a claim taken back, holds nothing any more: not what stayed together of a batch meanwhile either', async () => {
  const choose: Choice = ({ a, b, start }) =>
    a.kind === 'takeOut' &&
    ['reset', 'leave', 'register', 'releaseClaim'].includes(b.kind) &&
    start.name === 'held batch';
  const { violations, cases } = await interleave(database.url, {
    world: 'batches',
    every: 5,
    from: 0,
    choose,
  });
  expect(violations).toEqual([]);
  expect(cases).toBeGreaterThan(30);
}, 600_000);

test('leases of which some are being cancelled are given back in the order in which others lock them', async () => {
  const choose: Choice = ({ a, b, start }) =>
    (a.kind === 'extend' || a.kind === 'settle') && b.kind === 'release' && start.name.startsWith('stopping');
  const { violations, cases } = await interleave(database.url, { world: 'jobs', every: 3, from: 1, choose });
  expect(violations).toEqual([]);
  expect(cases).toBeGreaterThan(100);
}, 600_000);

test.each(['lose', 'miss'])(
  '%s: a node is not ended while it has a lease, and a node that beats is not ended',
  async (finding) => {
    const atNode = ['claim', 'settle', 'beat', 'leave', 'register', 'reset', finding];
    const choose: Choice = ({ a, b, start }) =>
      [a, b].some(({ kind }) => kind === finding) &&
      [a, b].every(({ kind }) => atNode.includes(kind)) &&
      /^(?:running|ready)/.test(start.name);
    const { violations, cases } = await interleave(database.url, {
      world: 'jobs',
      every: 7,
      from: 1,
      choose,
    });
    expect(violations).toEqual([]);
    expect(cases).toBeGreaterThan(100);
  },
  600_000,
);

describe('a mistake in one function is found', () => {
  test.each(Object.entries(mistakes))(
    '%s',
    async (_name, { bugs, world = 'jobs', choose }) => {
      const door = openDatabase({ connectionString: database.url });
      for (const bug of bugs) await seed(door, bug);
      await door.close();
      const { violations, cases } = await interleave(database.url, { world, every: 5, from: 0, choose });
      expect(cases).toBeGreaterThan(0);
      expect(violations).not.toEqual([]);
    },
    600_000,
  );
});
