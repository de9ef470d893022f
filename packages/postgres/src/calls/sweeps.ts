import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

/**
 * The scheduler that sweeps. Each function here that takes one throws PQ002, and writes nothing, when it no
 * longer leads.
 */
export interface Leader {
  readonly leader: string;
  readonly epoch: number;
}

/**
 * Makes delayed jobs pending whose time has come. `nextDueMs`: milliseconds until the next one is due; null:
 * none is delayed.
 */
export async function promote(
  target: Target,
  { leader, epoch }: Leader,
  max: number,
): Promise<{ readonly promoted: number; readonly nextDueMs: number | null }> {
  const [row] = await target.query<{ promoted: number; nextDueMs: number | null }>(
    `select promoted, next_due_ms as "nextDueMs" from ${target.schema}.promote($1, $2, $3)`,
    [leader, epoch, max],
  );
  return row ?? { promoted: 0, nextDueMs: null };
}

/** Ends jobs as expired that were not started by their `expires_at`; resolves to their number. */
export async function expire(target: Target, { leader, epoch }: Leader, max: number): Promise<number> {
  return (await ask<number>(target, 'expire($1, $2, $3)', [leader, epoch, max])) ?? 0;
}

/**
 * Reads the milliseconds until the first node counts as lost, if no heartbeat arrives. Negative: overdue;
 * null: there is no live node.
 */
export async function nextLossMs({ query, schema }: Target): Promise<number | null> {
  const [row] = await query<{ readonly dueMs: number | null }>(
    `select extract(epoch from min(n.heartbeat + n.lost_after_ms * interval '1 millisecond') - clock_timestamp())::float8 * 1000 as "dueMs"
     from ${schema}.node n where n.state in ('alive', 'draining')`,
    [],
  );
  return row?.dueMs ?? null;
}

/**
 * Takes back the items of nodes whose heartbeat stopped, or whose session has been gone for 3 s. `wellMs`:
 * time for which the leader could poll without a break, and open new connections.
 */
export async function loseNodes(
  target: Target,
  { leader, epoch }: Leader,
  wellMs = 0,
): Promise<readonly { readonly node: string; readonly jobs: number }[]> {
  return target.query<{ node: string; jobs: number }>(
    `select node_id as node, jobs::integer as jobs from ${target.schema}.lose_nodes($1, $2, $3)`,
    [leader, epoch, Math.min(86_400_000, Math.floor(wellMs))],
  );
}

/** Nodes whose session is missing. */
export interface MissingNodes {
  readonly missing: number;
  /** The state differs from that which {@link noteMissingNodes} has noted. */
  readonly changed: boolean;
  /** Milliseconds until the first of the noted nodes is lost; null: none was noted. */
  readonly lostInMs: number | null;
}

/** Checks the sessions of all nodes. Reads only. */
export async function missingNodes({ query, schema }: Target): Promise<MissingNodes> {
  const [row] = await query<MissingNodes>(
    `select missing, changed, lost_in_ms as "lostInMs" from ${schema}.missing_nodes()`,
    [],
  );
  return row ?? { missing: 0, changed: false, lostInMs: null };
}

/** Notes since when sessions of nodes are missing. */
export async function noteMissingNodes(target: Target, { leader, epoch }: Leader): Promise<void> {
  await target.query(`select ${target.schema}.note_missing_nodes($1, $2)`, [leader, epoch]);
}

/**
 * Result of {@link maintainHistory}. `locked`: another call is under way; `waits`: a transaction is in the
 * way; `large`: the default partition is too large to be read whole.
 */
export interface HistoryMaintained {
  readonly created: number;
  readonly dropped: number;
  readonly outcome: 'done' | 'locked' | 'waits' | 'large';
}

/** Creates coming partitions of history, and drops old ones. */
export async function maintainHistory({ query, schema }: Target): Promise<HistoryMaintained> {
  const [row] = await query<HistoryMaintained>(
    `select created, dropped, outcome from ${schema}.maintain_history()`,
    [],
  );
  return row ?? { created: 0, dropped: 0, outcome: 'locked' };
}

/**
 * Result of {@link trimHistory}. `locked`: another call is under way; `more`: time ran out, or a row was
 * locked, before all was deleted.
 */
export interface HistoryTrimmed {
  readonly deleted: number;
  readonly outcome: 'done' | 'locked' | 'more';
}

/** Deletes history of queues whose retention is shorter than the longest, for half a second at most. */
export async function trimHistory({ query, schema }: Target): Promise<HistoryTrimmed> {
  const [row] = await query<HistoryTrimmed>(
    `select deleted::float8 as deleted, outcome from ${schema}.trim_history()`,
    [],
  );
  return row ?? { deleted: 0, outcome: 'locked' };
}

/**
 * Counts the jobs that ended since the last call into buckets of time, for about `maxMs`; resolves to the
 * remaining lag, in milliseconds.
 * @throws PQ002 when this scheduler no longer leads in this epoch
 */
export async function countActivity(
  target: Target,
  { leader, epoch }: Leader,
  maxMs: number,
): Promise<number> {
  return (await ask<number>(target, 'count_activity($1, $2, $3)', [leader, epoch, Math.ceil(maxMs)])) ?? 0;
}
