import type { Database } from '../connection/database.ts';
import type { NodeTasks } from '../connection/tables.ts';

/** A worker node as an operator sees it. */
export interface NodeInfo {
  readonly id: string;
  readonly state: 'alive' | 'draining' | 'left' | 'lost';
  /** Its heartbeat is late, and the scheduler will take its jobs back soon. */
  readonly overdue: boolean;
  readonly pool: string;
  readonly slots: number;
  /** Leases that it holds; a batch is one. Batches that it has claimed ahead count, too. */
  readonly leases: number;
  /** Its slots that run something. A bundle takes one slot, whatever its leases. */
  readonly slotsInUse: number;
  /** Slots in use by handlers that run on although the time of their jobs is over, as the node's last heartbeat told. */
  readonly hung: number;
  readonly tasks: NodeTasks;
  /** Time since its last sign of life, in milliseconds, by the database's clock. */
  readonly heartbeatAgeMs: number;
  /** Time since this incarnation began, in milliseconds. */
  readonly ageMs: number;
  readonly software: string;
}

/**
 * Lists every node, live ones first, each state by id; an ended node is kept for a day. Leases are counted once for all
 * nodes: a thousand nodes are not a thousand scans. A node claims ahead only while its slots are taken: what exceeds them
 * waits in it.
 */
export async function listNodes({ query, schema }: Database): Promise<readonly NodeInfo[]> {
  return query<NodeInfo>(
    `select n.id, n.state, n.state in ('alive', 'draining') and n.heartbeat < clock_timestamp() - n.lost_after_ms * interval '1 millisecond' as overdue,
            n.pool, n.slots, coalesce(h.leases, 0) as leases, least(coalesce(h.units, 0) + n.hung, n.slots) as "slotsInUse", n.hung, n.tasks,
            extract(epoch from clock_timestamp() - n.heartbeat)::float8 * 1000 as "heartbeatAgeMs",
            extract(epoch from clock_timestamp() - n.started)::float8 * 1000 as "ageMs", n.software
     from ${schema}.node n left join (
       select w.lock_key, count(*)::integer as leases, count(distinct coalesce(-w.together, w.position))::integer as units
       from ${schema}.work_queue w where w.lock_key is not null group by w.lock_key) h on h.lock_key = n.id
     order by array_position(array['alive', 'draining', 'lost', 'left'], n.state), n.id`,
    [],
  );
}

/** Reports whether a node of this id has a row, or holds any work item. */
export async function isKnownNode({ query, schema }: Database, id: string): Promise<boolean> {
  const [row] = await query<{ known: boolean }>(
    `select exists (select from ${schema}.node where id = $1)
         or exists (select from ${schema}.work_queue where lock_key = $1) as known`,
    [id],
  );
  return row?.known === true;
}
