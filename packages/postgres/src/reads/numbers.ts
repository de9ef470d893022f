import type { Database } from '../connection/database.ts';
import type { QueueInfo } from './queues.ts';
import { listQueues } from './queues.ts';
import type { StoredReport } from './report.ts';
import { readReport } from './report.ts';
import type { LeaderInfo } from './system.ts';
import { readLeader, readOldestSnapshot } from './system.ts';

/** Job counts of a key. */
export interface KeyNumbers {
  readonly queue: string;
  /** Null stands for all other keys of the queue together. */
  readonly key: string | null;
  readonly pending: number;
  readonly ready: number;
  readonly running: number;
  /** False: `pending` is an estimate from a sample, in which a key with few jobs may be missing. */
  readonly exact: boolean;
}

/**
 * Lists the `top` keys with the most waiting or running jobs, and the rest of each queue. Reads the SQL
 * function `key_numbers`.
 */
export async function listKeys({ query, schema }: Database, top: number): Promise<readonly KeyNumbers[]> {
  return query<KeyNumbers>(
    `select queue, key, pending::float8 as pending, ready::float8 as ready, running::float8 as running, exact
     from ${schema}.key_numbers($1)`,
    [top],
  );
}

/**
 * Counts of nodes by state; ended nodes are kept for a day. `overdue`: alive or draining, with a late
 * heartbeat.
 */
export interface NodeNumbers {
  readonly alive: number;
  readonly draining: number;
  readonly overdue: number;
  readonly lost: number;
  /** Slots of alive nodes. */
  readonly slots: number;
}

/** Numbers of an installation for its metrics. */
export interface InstallationNumbers {
  readonly queues: readonly QueueInfo[];
  readonly keys: readonly KeyNumbers[];
  readonly nodes: NodeNumbers;
  readonly leader: LeaderInfo;
  readonly report: StoredReport | null;
  /**
   * Age of the snapshot that holds vacuum back most, in milliseconds; 0: there is none. Null: the role may not
   * see its age (it needs pg_read_all_stats).
   */
  readonly oldestSnapshotMs: number | null;
}

/**
 * Reads the database's numbers for metrics. Uses the views of `readStatus`, at the same bounded cost, and
 * needs no more rights than a scheduler's role has.
 */
export async function readNumbers(
  database: Database,
  { keys }: { readonly keys: number },
): Promise<InstallationNumbers> {
  // one after the other: a scrape is in no hurry, and takes one connection
  const queues = await listQueues(database);
  const snapshot = await readOldestSnapshot(database);
  return {
    queues,
    keys: keys === 0 ? [] : await listKeys(database, keys),
    nodes: await countNodes(database),
    leader: await readLeader(database),
    report: await readReport(database),
    oldestSnapshotMs: snapshot === null ? 0 : snapshot.ageMs,
  };
}

async function countNodes({ query, schema }: Database): Promise<NodeNumbers> {
  const [row] = await query<NodeNumbers>(
    `select count(*) filter (where state = 'alive')::integer as alive, count(*) filter (where state = 'draining')::integer as draining,
            count(*) filter (where state = 'lost')::integer as lost,
            count(*) filter (where state in ('alive', 'draining')
                               and heartbeat <= clock_timestamp() - lost_after_ms * interval '1 millisecond')::integer as overdue,
            coalesce(sum(slots) filter (where state = 'alive'), 0)::float8 as slots
     from ${schema}.node`,
    [],
  );
  return row ?? { alive: 0, draining: 0, overdue: 0, lost: 0, slots: 0 };
}
