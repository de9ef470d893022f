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
 * Takes leases in dispatch order: the SQL function `claim` (its SQL says why it is safe). Commits
 * asynchronously: a lease lost in a crash of Postgres is an item that is ready again.
 * @throws PQ001 when the node was reset, lost or replaced
 */
export async function claim(target: Target, input: ClaimInput): Promise<readonly ClaimedJob[]> {
  const text = relaxed(`${target.schema}.claim($1, $2, $3, $4, $5, $6)`).replace('f.*', columns);
  return inOrder(await target.query<ClaimedJob>(text, valuesOf(input)));
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
  return inOrder(await target.query<ClaimedJob>(text, [token, ids]));
}

function valuesOf({ node, incarnation, max, token, from = 0, reap = true }: ClaimInput): readonly unknown[] {
  return [node, incarnation, max, token, from, reap];
}

function inOrder(jobs: readonly ClaimedJob[]): readonly ClaimedJob[] {
  return jobs.toSorted((a, b) => a.position - b.position);
}

/** Columns of a claimed job. */
const columns = `f."position"::float8 as "position", f.id, f.token, f.queue, f.task, f.key, f.priority, f.attributes, f.payload,
  f.payload_version as "payloadVersion", f.tries, f.max_tries as "maxTries", f.crashes, f.retry, f.trace, f.created,
  f.lease_ms as "leaseMs", f.bundle, f.checkpoint`;
