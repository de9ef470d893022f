import type { Target } from '../connection/target.ts';
import type { LaneId } from './tick.ts';
import type { Leader } from './sweeps.ts';

/** The next jobs of a lane, all alike: the scheduler has read none of them, and they may all go. */
export interface BacklogInput extends Leader, LaneId {
  readonly priority: number;
  /** Seq behind which they begin. */
  readonly after: number;
  readonly task: string;
  readonly version: number;
  readonly pool: string;
  /** Most jobs to dispatch. */
  readonly jobs: number;
  /** Jobs of a work item, while there are more than that for each slot. */
  readonly size: number;
  /** Slots over which the last of them are spread. */
  readonly slots: number;
  /** Nodes of the pool to wake. Null: all. */
  readonly wake: readonly string[] | null;
}

/** Work items that a dispatch of a backlog has made. */
export interface BacklogDispatched {
  /** The database's time, in Unix milliseconds. */
  readonly atMs: number;
  /** Work items in order, each with its number of jobs. */
  readonly items: readonly { readonly position: number; readonly size: number }[];
  /** Seq of the last job. */
  readonly last: number;
  /** False: the next job of the lane is another kind of job, or there is none. */
  readonly more: boolean;
}

/**
 * Makes work items of the next jobs of a lane: the SQL function `dispatch_backlog`.
 * @throws PQ002 when this scheduler no longer leads in this epoch: nothing was written
 */
export async function dispatchBacklog(
  { query, schema }: Target,
  { leader, epoch, wake, ...backlog }: BacklogInput,
): Promise<BacklogDispatched> {
  const [row] = await query<{
    readonly atMs: number;
    readonly positions: string;
    readonly jobs: number;
    readonly size: number;
    readonly last: number;
    readonly more: boolean;
  }>(
    `select at_ms as "atMs", positions, jobs, size, last::float8 as last, more
     from ${schema}.dispatch_backlog($1, $2, $3::jsonb)`,
    [
      leader,
      epoch,
      JSON.stringify({
        ...backlog,
        ...(wake !== null && { wake: [backlog.pool, ...wake] }),
      }),
    ],
  );
  if (row === undefined) throw new Error('a dispatch of a backlog came back without an answer');
  const { atMs, positions, jobs, size, last, more } = row;
  const all = positions === '' ? [] : positions.split(',');
  const items = all.map((position, index) => ({
    position: Number(position),
    size: Math.min(size, jobs - index * size),
  }));
  return { atMs, items, last, more };
}
