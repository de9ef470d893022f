import { apartUnlocked, dispatchBlind, rowsUnfenced } from '../seeded-bugs/batch-bugs.ts';
import type { SqlBug } from '../seeded-bugs/sql.ts';
import type { Choice, WorldName } from './all.ts';

/** A mistaken migration, and some of the cases that find it. */
interface Mistake {
  readonly bugs: readonly SqlBug[];
  readonly world?: WorldName;
  readonly choose: Choice;
}

const settle = 'settle_mixed(uuid[],uuid[],text[],double precision[],text[],double precision[])';
export const mistakes: Readonly<Record<string, Mistake>> = {
  'settle looks for the job only': {
    bugs: [
      {
        function: settle,
        edits: [{ from: 'and w.lock_token = i.token', to: 'and w.lock_key is not null' }],
      },
    ],
    choose: ({ a, b, start }) => a.kind === 'settle' && b.kind === 'reset' && start.name.startsWith('stolen'),
  },
  'a sweep of expired leases locks nothing': {
    bugs: [
      {
        function: 'reap(integer)',
        edits: [{ from: 'for update skip locked);', to: ');' }],
      },
    ],
    choose: ({ a, b, start }) =>
      a.kind === 'settle' && b.kind === 'steal' && start.name.startsWith('expired'),
  },
  'leases are given back in any order': {
    bugs: [
      {
        function: 'release(uuid[],uuid[])',
        edits: [{ from: 'order by w.id for update', to: 'order by w.id desc for update' }],
      },
    ],
    choose: ({ a, b, start, schedule }) =>
      a.kind === 'extend' &&
      b.kind === 'release' &&
      start.name.startsWith('running') &&
      schedule.blocker !== null,
  },
  'a claim does not lock its node': {
    bugs: [
      {
        function: 'lease_items(text,uuid,uuid,jsonb)',
        edits: [{ from: '  for key share;', to: '  ;' }],
      },
    ],
    choose: ({ a, b, start }) =>
      a.kind === 'claim' && a.node === 'n1' && b.kind === 'leave' && start.name.startsWith('ready'),
  },
  'a silent node is ended, whatever leases it keeps': {
    bugs: [
      {
        function: 'lose_nodes(text,bigint,integer)',
        edits: [{ from: ' and v_jobs = cardinality(v_held)', to: '' }],
      },
    ],
    choose: ({ a, b, start }) => a.kind === 'settle' && b.kind === 'lose' && start.name.startsWith('running'),
  },
  'a silent node is looked at without its lock': {
    bugs: [
      {
        function: 'lose_nodes(text,bigint,integer)',
        edits: [{ from: 'where n.id = v_node for update skip locked', to: 'where n.id = v_node' }],
      },
    ],
    choose: ({ a, b }) => a.kind === 'register' && b.kind === 'lose',
  },
  'cancel does not lock the job': {
    bugs: [
      {
        function: 'recall(uuid[])',
        edits: [{ from: 'order by q.id for update;', to: 'order by q.id;' }],
      },
    ],
    choose: ({ a, b, start }) => a.kind === 'tick' && b.kind === 'cancel' && start.name.startsWith('pending'),
  },

  'a dispatch does not look into batches': {
    world: 'batches',
    bugs: [dispatchBlind],
    choose: ({ a, b, start }) =>
      a.kind === 'tickTogether' && b.kind === 'extend' && start.name === 'ready batch',
  },
  'a batch is taken apart without its lock': {
    world: 'batches',
    bugs: apartUnlocked,
    choose: ({ a, b, start }) =>
      a.kind === 'settleRows' && b.kind === 'cancelOne' && start.name === 'held batch',
  },
  'a batch is settled by its position alone': {
    world: 'batches',
    bugs: [rowsUnfenced],
    choose: ({ a, b, start }) =>
      a.kind === 'settleRows' && b.kind === 'extend' && start.name === "another's batch",
  },
  'a batch is given back by its position alone': {
    world: 'batches',
    bugs: [
      {
        function: 'release_rows(bigint[],uuid[])',
        edits: [{ from: 'and w.lock_token = x.token', to: '' }],
      },
    ],
    choose: ({ a, b, start }) =>
      a.kind === 'releaseRows' && b.kind === 'extend' && start.name === "another's batch",
  },
  'who ends a node looks once for its batches': {
    world: 'batches',
    bugs: [
      {
        function: 'spread_held(text,boolean)',
        edits: [{ from: 'for update));', to: 'for update)); return;' }],
      },
    ],
    choose: ({ a, b, start }) => a.kind === 'takeOut' && b.kind === 'reset' && start.name === 'held batch',
  },
};
