import type { Json, SavedPart } from '@pgqueue/core';
import type { Leader } from './sweeps.ts';
import type { Target } from './target.ts';

/** One plan: the jobs to schedule, and what its policy keeps. */
export interface DispatchInput extends Leader {
  /** In the order in which they are to be claimed. */
  readonly jobs: readonly {
    readonly id: string;
    readonly pool: string;
    /** The row as it was read: a job that was changed since is left out. Null: as it is by now. */
    readonly rowVersion: string | null;
    /** The id of the first job of its bundle; null: it runs alone. */
    readonly bundle: string | null;
  }[];
  /** The parts of the policy's state that changed, saved in the same transaction; null: none did. */
  readonly parts: Readonly<Record<string, Json>> | null;
  /** Batches of ended attempts ({@link SettledBatch}) that the plan has taken into account. */
  readonly settled: readonly number[];
  /** Whether to wake listening workers. */
  readonly notify: boolean;
}

/** What was written, and when by the database's clock (Unix ms). */
export interface Dispatched {
  readonly atMs: number;
  /** By id; jobs that are missing were taken, locked, moved, changed or ended since they were read. */
  readonly positions: ReadonlyMap<string, number>;
}

/**
 * Writes one plan: the SQL function `dispatch` (migration 0010 says why it is safe).
 * @throws PQ002 when this scheduler no longer leads in this epoch: nothing was written
 */
export async function dispatch(target: Target, input: DispatchInput): Promise<Dispatched> {
  const [row] = await target.query<{
    readonly atMs: number;
    readonly ids: readonly string[];
    readonly positions: readonly number[];
  }>(
    `select at_ms as "atMs", ids, positions::float8[] as positions
     from ${target.schema}.dispatch($1, $2, $3::uuid[], $4::text[], $5::text[]::xid[], $6::uuid[], $7::jsonb, $8::bigint[], $9)`,
    [
      input.leader,
      input.epoch,
      input.jobs.map(({ id }) => id),
      input.jobs.map(({ pool }) => pool),
      input.jobs.map(({ rowVersion }) => rowVersion),
      input.jobs.map(({ bundle }) => bundle),
      input.parts === null ? null : JSON.stringify(input.parts),
      input.settled,
      input.notify,
    ],
  );
  if (row === undefined) throw new Error('a dispatch came back without an answer');
  const { atMs, ids, positions } = row;
  return { atMs, positions: new Map(ids.map((id, index) => [id, positions[index] ?? 0])) };
}

/** Takes back work items that no node has leased; resolves to the ids of those that were. @throws PQ002 as {@link dispatch} */
export async function takeBack(
  target: Target,
  { leader, epoch }: Leader,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await target.query<{ id: string }>(
    `select take_back as id from ${target.schema}.take_back($1, $2, $3::uuid[])`,
    [leader, epoch, ids],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Whether ended attempts are recorded from now on. @throws PQ002 as {@link dispatch} */
export async function setFeed(target: Target, { leader, epoch }: Leader, on: boolean): Promise<void> {
  await target.query(`select ${target.schema}.set_feed($1, $2, $3)`, [leader, epoch, on]);
}

/** What leaders saved, by part. */
export async function loadPolicyState(target: Target): Promise<Readonly<Record<string, SavedPart>>> {
  const rows = await target.query<{ part: string; state: Json; savedMs: number }>(
    `select policy as part, state, extract(epoch from saved)::float8 * 1000 as "savedMs" from ${target.schema}.policy_state`,
    [],
  );
  return Object.fromEntries(rows.map(({ part, state, savedMs }) => [part, { state, savedMs }]));
}
