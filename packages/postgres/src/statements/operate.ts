import type { Target } from '../connection/target.ts';

/** Waiting jobs end at once; running ones are told. `busy`: at this moment between the two; call again. Missing: ended, or never was. */
export async function cancel(
  target: Target,
  ids: readonly string[],
): Promise<ReadonlyMap<string, 'cancelled' | 'signalled' | 'busy'>> {
  const rows = await target.query<{ job_id: string; verdict: 'cancelled' | 'signalled' | 'busy' }>(
    `select job_id, verdict from ${target.schema}.cancel($1::uuid[])`,
    [ids],
  );
  return new Map(rows.map(({ job_id, verdict }) => [job_id, verdict]));
}

/** What to change of waiting jobs; what is left out stays. */
export interface Amendment {
  readonly priority?: number;
  /** A new time, or `now`: run as soon as there is a slot. */
  readonly runAfter?: Date | 'now';
}

/** Changes waiting jobs; resolves to those that were changed. Running ones are left alone. */
export async function amend(
  target: Target,
  ids: readonly string[],
  amendment: Amendment,
): Promise<ReadonlySet<string>> {
  const { priority = null, runAfter } = amendment;
  const at = runAfter instanceof Date ? runAfter.toISOString() : null;
  const rows = await target.query<{ id: string }>(
    `select amend as id from ${target.schema}.amend($1::uuid[], $2, $3::timestamptz, $4)`,
    [ids, priority, at, runAfter === 'now'],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Removes jobs without a trace, wherever they stand; running ones are left alone. Resolves to those that were removed. */
export async function erase(target: Target, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await target.query<{ id: string }>(
    `select erase as id from ${target.schema}.erase($1::uuid[])`,
    [ids],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Puts dead jobs back into QUEUE with fresh limits. Missing: not dead, or their unique key is taken by a newer job. */
export async function redrive(target: Target, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await target.query<{ id: string }>(
    `select redrive as id from ${target.schema}.redrive($1::uuid[])`,
    [ids],
  );
  return new Set(rows.map(({ id }) => id));
}
