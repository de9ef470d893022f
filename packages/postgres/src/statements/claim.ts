import type { Attributes, Backoff, ClaimedJob, TraceContext } from '@pgqueue/core';
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
  /** The low-water mark: positions below it are not looked at. 0 looks at all. */
  readonly from?: number;
}

interface ClaimRow {
  readonly position: number;
  readonly id: string;
  readonly token: string;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  readonly attributes: Attributes;
  readonly payload: unknown;
  readonly payload_version: number;
  readonly tries: number;
  readonly max_tries: number;
  readonly crashes: number;
  readonly retry: Backoff | null;
  readonly trace: TraceContext | null;
  readonly created: Date;
  readonly lease_ms: number;
  readonly bundle: string | null;
  readonly checkpoint: unknown;
}

/**
 * Takes leases in dispatch order: the SQL function `claim` (migration 0013 says why it is safe). Commits asynchronously: a
 * lease lost in a crash of Postgres is an item that is ready again.
 * @throws PQ001 when the node was reset, lost or replaced
 */
export async function claim(target: Target, input: ClaimInput): Promise<readonly ClaimedJob[]> {
  const text = relaxed(`${target.schema}.claim($1, $2, $3, $4, $5)`).replace(
    'f.*',
    `f."position"::float8 as "position", f.id, f.token, f.queue, f.task, f.key, f.priority, f.attributes, f.payload,
     f.payload_version, f.tries, f.max_tries, f.crashes, f.retry, f.trace, f.created, f.lease_ms, f.bundle, f.checkpoint`,
  );
  const { node, incarnation, max, token, from = 0 } = input;
  const rows = await target.query<ClaimRow>(text, [node, incarnation, max, token, from]);
  return rows
    .map(({ payload_version, max_tries, lease_ms, ...row }) => ({
      ...row,
      payloadVersion: payload_version,
      maxTries: max_tries,
      leaseMs: lease_ms,
    }))
    .sort((a, b) => a.position - b.position);
}
