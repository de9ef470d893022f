import { openDatabase } from '@pgqueue/postgres';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SqlBug } from '../seeded-bugs/sql.ts';
import { seed } from '../seeded-bugs/sql.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import type { Choice } from './all.ts';
import { allCases, interleave } from './all.ts';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(() => database.drop());

/** A prime: every pair is among them, and with each seed other orders. */
const every = 131;

test('a share of all interleavings of every pair: the outcome is that of one after the other', async () => {
  const from = Math.floor(Math.random() * every);
  const { violations, pairs, cases, waited } = await interleave(database.url, { every, from });
  expect({ from, violations }).toEqual({ from, violations: [] });
  expect(pairs).toBe(171);
  expect(cases).toBeGreaterThan(400);
  expect(waited).toBeGreaterThan(50);
}, 600_000);

test('leases of which some are being cancelled are given back in the order in which others lock them', async () => {
  const choose: Choice = ({ a, b, start }) =>
    (a.kind === 'extend' || a.kind === 'settle') && b.kind === 'release' && start[0] === 'stopping';
  const { violations, cases } = await interleave(database.url, { every: 3, from: 1, choose });
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
      (start[0] === 'running' || start[0] === 'ready');
    const { violations, cases } = await interleave(database.url, { every: 7, from: 1, choose });
    expect(violations).toEqual([]);
    expect(cases).toBeGreaterThan(100);
  },
  600_000,
);

describe('a mistake in one function is found', () => {
  const settle =
    'settle_mixed(timestamptz,uuid[],uuid[],text[],double precision[],text[],double precision[])';
  const bugs: Readonly<Record<string, { readonly bug: SqlBug; readonly choose: Choice }>> = {
    'settle looks for the job only': {
      bug: {
        function: settle,
        edits: [{ from: 'and w.lock_token = i.token', to: 'and w.lock_key is not null' }],
      },
      choose: ({ a, b, start }) => a.kind === 'settle' && b.kind === 'reset' && start[0] === 'stolen',
    },
    'a sweep of expired leases locks nothing': {
      bug: {
        function: 'reap(integer)',
        edits: [{ from: 'for update skip locked);', to: ');' }],
      },
      choose: ({ a, b, start }) => a.kind === 'settle' && b.kind === 'steal' && start[0] === 'expired',
    },
    'leases are given back in any order': {
      bug: {
        function: 'release(uuid[],uuid[])',
        edits: [{ from: 'order by w.id for update', to: 'order by w.id desc for update' }],
      },
      choose: ({ a, b, start, schedule }) =>
        a.kind === 'extend' && b.kind === 'release' && start[0] === 'running' && schedule.blocker !== null,
    },
    'a claim does not lock its node': {
      bug: {
        function: 'lease_items(text,uuid,integer,uuid,bigint,boolean,integer)',
        edits: [{ from: '  for key share;', to: '  ;' }],
      },
      choose: ({ a, b, start }) =>
        a.kind === 'claim' && a.node === 'n1' && b.kind === 'leave' && start[0] === 'ready',
    },
    'a silent node is ended, whatever leases it keeps': {
      bug: {
        function: 'lose_nodes(text,bigint,integer)',
        edits: [{ from: ' and v_jobs = cardinality(v_held)', to: '' }],
      },
      choose: ({ a, b, start }) => a.kind === 'settle' && b.kind === 'lose' && start[0] === 'running',
    },
    'a silent node is looked at without its lock': {
      bug: {
        function: 'lose_nodes(text,bigint,integer)',
        edits: [{ from: 'where n.id = v_node for update skip locked', to: 'where n.id = v_node' }],
      },
      choose: ({ a, b }) => a.kind === 'register' && b.kind === 'lose',
    },
    'cancel does not lock the job': {
      bug: {
        function: 'recall(uuid[])',
        edits: [{ from: 'order by q.id for update;', to: 'order by q.id;' }],
      },
      choose: ({ a, b, start }) => a.kind === 'tick' && b.kind === 'cancel' && start[0] === 'pending',
    },
  };

  test.each(Object.entries(bugs))(
    '%s',
    async (_name, { bug, choose }) => {
      const door = openDatabase({ connectionString: database.url });
      await seed(door, bug);
      await door.close();
      const sound = allCases().filter(choose);
      expect(sound.length).toBeGreaterThan(0);
      const { violations } = await interleave(database.url, { every: 5, from: 0, choose });
      expect(violations).not.toEqual([]);
    },
    600_000,
  );
});
