import type { ClaimedJob } from '@pgqueue/core';
import type { Target } from './target.ts';
import { relaxed } from './target.ts';

/** Who claims, and how much. */
export interface ClaimInput {
  readonly node: string;
  readonly incarnation: string;
  /** The node's free slots: so many jobs at most, where a bundle counts as one. */
  readonly max: number;
  /** Drawn by the node, new for each claim: with a job's id it names one lease. */
  readonly token: string;
  /** The low-water mark: positions below it are not looked at. 0 or less: looks for leases that have ended, too, and at all from -from on. Default 0. */
  readonly from?: number;
}

/** As it is read: `pg` takes a microsecond for a time and a tenth for a number, and nothing for what most jobs don't have. */
type ClaimRow = { -readonly [Name in Exclude<keyof ClaimedJob, Mended>]: ClaimedJob[Name] } & {
  [Name in Exclude<Mended, 'created' | 'token'>]: ClaimedJob[Name] | null;
} & { created: Date | number; token?: string };

type Mended = 'created' | 'token' | 'key' | 'priority' | 'attributes' | 'tries' | 'crashes';

/**
 * Takes leases in dispatch order: the SQL function `claim` (migrations 0013 and 0026 say why it is safe). Commits asynchronously: a
 * lease lost in a crash of Postgres is an item that is ready again.
 * @throws PQ001 when the node was reset, lost or replaced
 */
export async function claim(target: Target, input: ClaimInput): Promise<readonly ClaimedJob[]> {
  const text = relaxed(`${target.schema}.claim($1, $2, $3, $4, $5)`).replace('f.*', columns);
  const { node, incarnation, max, token, from = 0 } = input;
  const rows = await target.query<ClaimRow>(text, [node, incarnation, max, token, from]);
  for (const row of rows) {
    row.created = new Date(row.created);
    row.token = token;
    row.key ??= '';
    row.priority ??= 0;
    row.attributes ??= {};
    row.tries ??= 0;
    row.crashes ??= 0;
  }
  return (rows as ClaimedJob[]).sort((a, b) => a.position - b.position);
}

/** `created` in whole milliseconds, cut off as `pg` does; half a microsecond is what the product may be off. */
const columns = `f."position"::float8 as "position", f.id, f.queue, f.task, nullif(f.key, '') as key, nullif(f.priority, 0) as priority,
  nullif(f.attributes, '{}') as attributes, f.payload,
  f.payload_version as "payloadVersion", nullif(f.tries, 0) as tries, f.max_tries as "maxTries",
  nullif(f.crashes, 0) as crashes, f.retry, f.trace,
  floor(date_part('epoch', f.created) * 1000 + 0.0005) as created, f.lease_ms as "leaseMs", f.bundle, f.checkpoint`;

/** The lowest position of a work item that is there, from this one on; null: there is none. Nothing comes before it any more. */
export async function firstItem(target: Target, from: number): Promise<number | null> {
  const [row] = await target.query<{ readonly first: number | null }>(
    `select ${target.schema}.first_item($1)::float8 as first`,
    [from],
  );
  return row?.first ?? null;
}
