import type { Target } from '../connection/target.ts';
import { askIds } from '../connection/target.ts';

/** A job's id and the token of its lease: both must match for anything to change. */
export interface Lease {
  readonly id: string;
  readonly token: string;
}

/**
 * Extends leases to end `ms` from now. Ids that are missing from the answer were lost. `cancelled`: a
 * cancellation of the job was asked for.
 */
export async function extend(
  target: Target,
  leases: readonly (Lease & { readonly ms: number })[],
): Promise<ReadonlyMap<string, { readonly cancelled: boolean }>> {
  const rows = await target.query<{ job_id: string; cancelled: boolean }>(
    `select job_id, cancelled from ${target.schema}.extend($1::uuid[], $2::uuid[], $3::float8[])`,
    [leases.map(({ id }) => id), leases.map(({ token }) => token), leases.map(({ ms }) => ms)],
  );
  return new Map(rows.map(({ job_id, cancelled }) => [job_id, { cancelled }]));
}

/** Gives leases back unrun, uncounted; resolves to the ids that were still held. */
export async function release(target: Target, leases: readonly Lease[]): Promise<ReadonlySet<string>> {
  if (leases.length === 0) return new Set();
  const values = [leases.map(({ id }) => id), leases.map(({ token }) => token)];
  return askIds(target, 'release($1::uuid[], $2::uuid[])', values);
}

/**
 * Shows progress (JSON text, up to 8 KiB) of several running jobs at once. Ids that are missing from the answer were lost. Locks by
 * id, as everywhere.
 */
export async function reportProgressOfAll(
  target: Target,
  leases: readonly (Lease & { readonly progress: string })[],
): Promise<ReadonlySet<string>> {
  const rows = await target.query<{ id: string }>(
    `select x.id from (select * from unnest($1::uuid[], $2::uuid[], $3::text[]) as x (id, token, progress) order by id) x
     where ${target.schema}.report_progress(x.id, x.token, x.progress::jsonb)`,
    [leases.map(({ id }) => id), leases.map(({ token }) => token), leases.map(({ progress }) => progress)],
  );
  return new Set(rows.map(({ id }) => id));
}

/**
 * Takes over expired leases: their jobs are ready again, or dead at their crash limit. Any node and the
 * scheduler may call it.
 */
export async function reap(target: Target, max = 1_000): Promise<number> {
  const rows = await target.query<{ jobs: number }>(
    `select count(*)::integer as jobs from ${target.schema}.reap($1)`,
    [max],
  );
  return rows[0]?.jobs ?? 0;
}
