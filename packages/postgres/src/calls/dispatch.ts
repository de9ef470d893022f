import type { Json, SavedPart } from '@pgqueue/core';
import type { HintedJob } from '../hints/hinted-job.ts';
import type { Leader } from './sweeps.ts';
import type { Target } from '../connection/target.ts';
import { askIds } from '../connection/target.ts';

/** Assumptions that a plan makes from hints, without a read of the database. */
export interface Supposition {
  /** Jobs that have ended. */
  readonly ended: readonly string[];
  /**
   * Jobs that wait. Each is the first of its priority in its lane behind the seq `after`, except for jobs of
   * this list before it.
   */
  readonly jobs: readonly (HintedJob & { readonly after: number })[];
  /** The settings of queues are still these: {@link TickRead}.config. */
  readonly config: string;
}

/** One plan: the jobs to schedule, and the state that its policy keeps. */
export interface DispatchInput extends Leader {
  /**
   * Assumptions of the plan: if one is false, nothing is written. Default: the plan was made from a tick's
   * snapshot.
   */
  readonly supposed?: Supposition | undefined;
  /** In the order in which they are to be claimed. */
  readonly jobs: readonly {
    readonly id: string;
    readonly pool: string;
    /** The row's version as it was read: a job that was changed since is left out. Null: unchecked. */
    readonly rowVersion: string | null;
    /** The id of the first job of its bundle, which the others follow; null: it runs alone. */
    readonly bundle: string | null;
    /**
     * The number of its work item, from 1 on in their order: jobs of one number are a batch. Either all jobs
     * have one, or none. Default: each job is by itself.
     */
    readonly row?: number;
  }[];
  /** Moves up the positions from which on items and batches are searched. Default false. */
  readonly front?: boolean;
  /** The changed parts of the policy's state, saved in the same transaction; null: none changed. */
  readonly parts: Readonly<Record<string, Json>> | null;
  /** Batches of ended attempts ({@link SettledBatch}) that the plan has taken into account. */
  readonly settled: readonly number[];
  /** Wakes listening workers. */
  readonly notify: boolean;
  /** Wakes only these nodes of the pool, which all jobs have. Null: all. Default null. */
  readonly wake?: readonly string[] | null;
}

/**
 * Result of a dispatch. `atMs`: the database's time, in Unix milliseconds; null: an assumption was false, and
 * nothing was written.
 */
export interface Dispatched {
  readonly atMs: number | null;
  /** By job id. Jobs that are missing were taken, locked, moved, changed or ended since they were read. */
  readonly positions: ReadonlyMap<string, number>;
}

/**
 * Writes one plan: the SQL function `dispatch` (its SQL says why it is safe).
 * @throws PQ002 when this scheduler no longer leads in this epoch: nothing was written
 */
export async function dispatch(target: Target, input: DispatchInput): Promise<Dispatched> {
  const { wake = null } = input;
  const jobs = withRows(input.jobs);
  const pool = jobs[0]?.pool ?? null;
  const alike = jobs.every((job) => job.pool === pool);
  const [row] = await target.query<{
    readonly atMs: number | null;
    readonly positions: string;
    readonly missing: readonly string[];
  }>(
    `select at_ms as "atMs", positions, missing
     from ${target.schema}.dispatch($1, $2, $3::uuid[], $4::text[]::xid[], $5::jsonb, $6)`,
    [
      input.leader,
      input.epoch,
      arrayText(jobs.map(({ id }) => id)),
      arrayText(jobs.map(({ rowVersion }) => rowVersion ?? 'null')),
      JSON.stringify({
        ...(alike ? { pool } : { pools: jobs.map((job) => job.pool) }),
        ...(hasBatches(jobs) && { rows: arrayText(jobs.map(({ row }) => String(row))) }),
        ...togetherOf(jobs),
        ...(input.front === true && { front: true }),
        ...(input.parts !== null && { parts: input.parts }),
        ...(input.settled.length > 0 && { settled: input.settled }),
        ...(input.supposed !== undefined && { supposed: input.supposed }),
        ...(alike && pool !== null && wake !== null && { wake: [pool, ...wake] }),
      }),
      input.notify,
    ],
  );
  if (row === undefined) throw new Error('a dispatch came back without an answer');
  const { atMs, positions, missing } = row;
  const left = new Set(missing);
  const made = left.size === 0 ? jobs : jobs.filter(({ id }) => !left.has(id));
  return { atMs, positions: positionsOf(made, positions) };
}

/** Numbers the work items: the jobs of a bundle are one work item. */
function withRows(jobs: DispatchInput['jobs']): DispatchInput['jobs'] {
  if (jobs.every(({ bundle }) => bundle === null)) return jobs;
  let row = 0;
  let last: DispatchInput['jobs'][number] | undefined;
  return jobs.map((job) => {
    const isBundled = job.bundle !== null && job.bundle === last?.bundle;
    const isBatched =
      job.bundle === null && last?.bundle === null && job.row !== undefined && job.row === last.row;
    if (!isBundled && !isBatched) row += 1;
    last = job;
    return { ...job, row };
  });
}

/** Lists the work items that are bundles. */
function togetherOf(jobs: DispatchInput['jobs']): { readonly together?: string } {
  const rows = jobs.flatMap(({ id, bundle, row }) => (bundle === id ? [String(row)] : []));
  return rows.length === 0 ? {} : { together: arrayText(rows) };
}

function hasBatches(jobs: DispatchInput['jobs']): boolean {
  return jobs[0]?.row !== undefined;
}

/**
 * Maps jobs to positions. `positions` has one for each work item, in order, and none for a batch of which no
 * job was dispatched.
 */
function positionsOf(made: DispatchInput['jobs'], positions: string): ReadonlyMap<string, number> {
  const numbers = positions === '' ? [] : positions.split(',');
  const byId = new Map<string, number>();
  let [index, last] = [-1, 0];
  for (const { id, row = last + 1 } of made) {
    if (row !== last) [index, last] = [index + 1, row];
    byId.set(id, Number(numbers[index]));
  }
  return byId;
}

/**
 * Writes an array as PostgreSQL reads it, of values that need no quotes (ids, numbers). `pg` would check each
 * of their characters.
 */
function arrayText(values: readonly string[]): string {
  return `{${values.join(',')}}`;
}

/**
 * Takes back work items that no node has leased; resolves to the ids of their jobs.
 * @throws PQ002 as {@link dispatch}
 */
export function takeBack(
  target: Target,
  { leader, epoch }: Leader,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  return askIds(target, 'take_back($1, $2, $3::uuid[])', [leader, epoch, ids]);
}

/**
 * Sets whether ended attempts are recorded from now on.
 * @throws PQ002 as {@link dispatch}
 */
export async function setFeed(target: Target, { leader, epoch }: Leader, on: boolean): Promise<void> {
  await target.query(`select ${target.schema}.set_feed($1, $2, $3)`, [leader, epoch, on]);
}

/** Reads the policy state that leaders saved, by part. */
export async function loadPolicyState(target: Target): Promise<Readonly<Record<string, SavedPart>>> {
  const rows = await target.query<{ part: string; state: Json; savedMs: number }>(
    `select part, state, extract(epoch from saved)::float8 * 1000 as "savedMs" from ${target.schema}.policy_state`,
    [],
  );
  return Object.fromEntries(rows.map(({ part, state, savedMs }) => [part, { state, savedMs }]));
}
