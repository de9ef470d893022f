import { randomUUID } from 'node:crypto';
import type { ClaimedRow, ClaimedRows } from '@pgqueue/postgres/internal';
import { claimRows, dispatch, settleRows } from '@pgqueue/postgres/internal';
import type { Ground, Member } from './support.ts';

export interface ClaimSome {
  readonly max?: number;
  readonly ahead?: number;
  readonly token?: string;
  readonly reap?: boolean;
}

/** Short ways to put jobs into batches, on a {@link Ground}. */
export interface Batches {
  readonly insert: (count: number, columns?: Readonly<Record<string, unknown>>) => Promise<string[]>;
  /** Dispatches each list as one work item. Resolves to the positions by id. */
  readonly dispatch: (rows: readonly (readonly string[])[]) => Promise<ReadonlyMap<string, number>>;
  readonly claim: (node: Member, options?: ClaimSome) => Promise<readonly ClaimedRow[]>;
  /** The same, and whether it was as much as one claim brings. */
  readonly claimUpTo: (node: Member, options?: ClaimSome) => Promise<ClaimedRows>;
  /** So many jobs in one batch that this node has claimed. */
  readonly held: (node: Member, count: number, columns?: Readonly<Record<string, unknown>>) => Promise<Held>;
  /** Settles it as done, each job after 1 ms. */
  readonly settle: (row: Held, data?: readonly (string | null)[]) => Promise<ReadonlySet<number>>;
  readonly work: () => Promise<readonly Work[]>;
}

export interface Held {
  readonly position: number;
  readonly token: string;
  readonly ids: readonly string[];
}

/** A row of WORK_QUEUE. */
export interface Work {
  readonly position: number;
  readonly ids: readonly string[];
  readonly batch: boolean;
  readonly token: string | null;
  readonly suspect: boolean;
  readonly cancelled: boolean;
}

export function batchesOn(ground: Ground): Batches {
  const insert: Batches['insert'] = async (count, columns = {}) => {
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1) ids.push(await ground.insert(columns));
    return ids;
  };
  const dispatchRows: Batches['dispatch'] = async (rows) => {
    const jobs = rows.flatMap((ids, index) =>
      ids.map((id) => ({ id, pool: 'default', rowVersion: null, bundle: null, row: index + 1 })),
    );
    const plan = { parts: null, settled: [], notify: false };
    return (await dispatch(ground.database, { ...ground.leader(), ...plan, jobs })).positions;
  };
  const claimUpTo: Batches['claimUpTo'] = async (
    node,
    { max = 10, ahead = 0, token = randomUUID(), reap = false } = {},
  ) =>
    claimRows(ground.database, {
      node: node.id,
      incarnation: node.incarnation,
      max,
      ahead,
      token,
      from: 0,
      reap,
    });
  const claim: Batches['claim'] = async (node, options) => (await claimUpTo(node, options)).rows;
  return {
    insert,
    dispatch: dispatchRows,
    claim,
    claimUpTo,
    held: async (node, count, columns) => {
      const ids = await insert(count, columns);
      await dispatchRows([ids]);
      const token = randomUUID();
      const rows = await claim(node, { token });
      const row = rows.find(({ jobs }) => jobs[0]?.id === ids[0]);
      if (row?.size !== count) throw new Error('the batch was not claimed whole');
      return { position: row.position, token, ids };
    },
    settle: ({ position, token, ids }, data = ids.map(() => null)) =>
      settleRows(ground.database, [{ position, token, busyMs: ids.map(() => 1), data }]),
    work: async () => {
      const rows = await ground.sql(
        `select position::float8 as position, coalesce(jobs, array[id]) as ids, jobs is not null as batch, lock_token as token, suspect,
                cancelled is not null as cancelled
         from pgqueue.work_queue order by position`,
      );
      return rows as unknown as readonly Work[];
    },
  };
}
