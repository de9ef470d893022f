import { lockMs } from './settle.ts';
import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

/** A batch that a node holds: its work item's position, and the token of the claim. */
export interface RowLease {
  readonly position: number;
  readonly token: string;
}

/** A batch of which every job is done. The lists have an entry for each job, in the order of the batch. */
export interface EndedRow extends RowLease {
  /** Run times in milliseconds. */
  readonly busyMs: readonly number[];
  /** Results as JSON texts; null: none. */
  readonly data: readonly (string | null)[];
}

/**
 * Ends batches of which every job is done: the SQL function `settle_rows`. Resolves to the positions that
 * were settled; a missing one was lost, taken apart, or settled by an earlier call. Waits up to 200 ms for
 * locks of other transactions; then the server refuses the whole call by 55P03, and nothing was changed.
 */
export async function settleRows(target: Target, rows: readonly EndedRow[]): Promise<ReadonlySet<number>> {
  let [positions, tokens, sizes, busy, results] = ['', '', '', '', false];
  for (const row of rows) {
    positions += `,${row.position}`;
    tokens += `,${row.token}`;
    sizes += `,${row.busyMs.length}`;
    // microseconds with an exponent: formatting a fraction costs more than everything else for a job here
    for (const ms of row.busyMs) busy += `,${Math.round(ms * 1_000)}e-3`;
    for (const text of row.data) results ||= text !== null;
  }
  const [answer] = await target.query<{ readonly settled: readonly number[] }>(
    `select ${target.schema}.settle_rows($1::text::bigint[], $2::text::uuid[], $3::text::integer[], $4::text::float4[],
       case when patience.ms <> '' then $5::text[] end)::float8[] as settled
     from (select set_config('lock_timeout', '${lockMs}', true) as ms) as patience`,
    [
      `{${positions.slice(1)}}`,
      `{${tokens.slice(1)}}`,
      `{${sizes.slice(1)}}`,
      `{${busy.slice(1)}}`,
      results ? rows.flatMap(({ data }) => data) : null,
    ],
  );
  return new Set(answer?.settled ?? []);
}

/**
 * Gives each job of a batch a row of its own, under the same token: the SQL function `take_out`. A batch that
 * is not held stays as it is.
 */
export async function takeApart(target: Target, { position, token }: RowLease): Promise<void> {
  await target.query(`select ${target.schema}.take_out($1, $2::uuid)`, [position, token]);
}

/**
 * Gives some jobs of a batch rows of their own, in the same way. Resolves to the position of the row with the
 * other jobs; null: there is none.
 */
export async function takeOut(
  target: Target,
  { position, token }: RowLease,
  ids: readonly string[],
): Promise<number | null> {
  const values = [position, token, ids];
  return (await ask<number>(target, 'take_out($1, $2::uuid, $3::uuid[])::float8', values)) ?? null;
}

/**
 * Gives batches back unrun, at their old position: the SQL function `release_rows`. Resolves to the number of
 * those that were held and whole.
 */
export async function releaseRows(target: Target, rows: readonly RowLease[]): Promise<number> {
  const values = [rows.map(({ position }) => position), rows.map(({ token }) => token)];
  return (await ask<number>(target, 'release_rows($1::bigint[], $2::uuid[])', values)) ?? 0;
}

/** Stores how long a node's jobs take, in milliseconds by task: the SQL function `tell_runs`. */
export async function tellRuns(
  target: Target,
  { node, incarnation }: { readonly node: string; readonly incarnation: string },
  runs: Readonly<Record<string, number>>,
): Promise<void> {
  await target.query(`select ${target.schema}.tell_runs($1, $2::uuid, $3::jsonb)`, [
    node,
    incarnation,
    JSON.stringify(runs),
  ]);
}
