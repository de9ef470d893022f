import type { ClaimedJob } from '@pgqueue/core/internal';
import type { Target } from '../connection/target.ts';
import { relaxed } from '../connection/target.ts';

/** Input of a claim. */
export interface ClaimInput {
  readonly node: string;
  readonly incarnation: string;
  /** The node's free slots: the maximum of jobs, where a bundle counts as one. */
  readonly max: number;
  /** Drawn by the node, new for each claim: with a job's id it names one lease. */
  readonly token: string;
  /** The low-water mark: positions below it are not read. Default 0. */
  readonly from?: number;
  /** If slots are left, reaps expired leases and claims their jobs like any other. Default true. */
  readonly reap?: boolean;
}

/**
 * A row as it is read. `pg` parses a time in 1 µs and a number in 0.1 µs, and values that most jobs don't
 * have are null, which costs nothing.
 */
type ClaimRow = { -readonly [Name in Exclude<keyof ClaimedJob, Mended>]: ClaimedJob[Name] } & {
  [Name in Exclude<Mended, 'created' | 'token'>]: ClaimedJob[Name] | null;
} & { created: Date | number; token?: string };

type Mended = 'created' | 'token' | 'key' | 'priority' | 'attributes' | 'tries' | 'crashes';

/**
 * Takes leases in dispatch order: the SQL function `claim` (its SQL says why it is safe). Commits
 * asynchronously: a lease lost in a crash of Postgres is an item that is ready again.
 * @throws PQ001 when the node was reset, lost or replaced
 */
export async function claim(target: Target, input: ClaimInput): Promise<readonly ClaimedJob[]> {
  const text = relaxed(`${target.schema}.claim($1, $2, $3, $4, $5, $6)`).replace('f.*', columns);
  return mended(await target.query<ClaimRow>(text, valuesOf(input)), input.token);
}

/**
 * Claims as {@link claim} does, without reading the jobs; resolves to their ids. {@link readLeased} reads
 * them.
 */
export async function claimUnread(target: Target, input: ClaimInput): Promise<readonly string[]> {
  const text = relaxed(`${target.schema}.claim($1, $2, $3, $4, $5, $6)`).replace('f.*', 'f.id');
  return (await target.query<{ readonly id: string }>(text, valuesOf(input))).map(({ id }) => id);
}

/** Reads the jobs of leases under one token, as {@link claim} returns them: the SQL function `leased`. */
export async function readLeased(
  target: Target,
  token: string,
  ids: readonly string[],
): Promise<readonly ClaimedJob[]> {
  const text = `select ${columns} from ${target.schema}.leased($1::uuid, $2::uuid[]) f`;
  return mended(await target.query<ClaimRow>(text, [token, ids]), token);
}

function valuesOf({ node, incarnation, max, token, from = 0, reap = true }: ClaimInput): readonly unknown[] {
  return [node, incarnation, max, token, from, reap];
}

function mended(rows: readonly ClaimRow[], token: string): readonly ClaimedJob[] {
  for (const row of rows) {
    row.created = new Date(row.created);
    row.token = token;
    row.key ??= '';
    row.priority ??= 0;
    row.attributes ??= {};
    row.tries ??= 0;
    row.crashes ??= 0;
  }
  return (rows as ClaimedJob[]).toSorted((a, b) => a.position - b.position);
}

/**
 * Columns of a claimed job. `created` is cut off to whole milliseconds, as `pg` does; half a microsecond
 * allows for the rounding of the product.
 */
const columns = `f."position"::float8 as "position", f.id, f.queue, f.task, nullif(f.key, '') as key, nullif(f.priority, 0) as priority,
  nullif(f.attributes, '{}') as attributes, f.payload,
  f.payload_version as "payloadVersion", nullif(f.tries, 0) as tries, f.max_tries as "maxTries",
  nullif(f.crashes, 0) as crashes, f.retry, f.trace,
  floor(date_part('epoch', f.created) * 1000 + 0.0005) as created, f.lease_ms as "leaseMs", f.bundle, f.checkpoint`;
