import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { NodeTable, NodeTasks } from '../connection/tables.ts';

/** A worker node as an operator sees it. */
export interface NodeInfo {
  readonly id: string;
  readonly state: NodeTable['state'];
  /** Its heartbeat is late, and the scheduler will take its jobs back soon. */
  readonly overdue: boolean;
  readonly pool: string;
  readonly slots: number;
  /** Leases that it holds; a batch is one. Batches that it has claimed ahead count, too. */
  readonly leases: number;
  /** Its slots that run something. A bundle takes one slot, whatever its leases. */
  readonly slotsInUse: number;
  readonly tasks: NodeTasks;
  /** Time since its last sign of life, in milliseconds, by the database's clock. */
  readonly heartbeatAgeMs: number;
  /** Time since this incarnation began, in milliseconds. */
  readonly ageMs: number;
  readonly software: string;
}

/** States of nodes in the order of lists: those that may run something come first. */
const stateOrder = sql`array_position(array['alive', 'draining', 'lost', 'left'], state)`;

/** Lists every node, live ones first, each state by id; an ended node is kept for a day. */
export async function listNodes({ kysely, schema }: Database): Promise<readonly NodeInfo[]> {
  const work = sql.table(`${schema}.work_queue`);
  // counted once for all nodes: a thousand nodes are not a thousand scans
  const held = sql<{
    lock_key: string;
    leases: number;
    units: number;
  }>`(select lock_key, count(*)::integer as leases, count(distinct coalesce(-together, position))::integer as units
      from ${work} where lock_key is not null group by lock_key)`;
  const rows = await kysely
    .selectFrom('node')
    .leftJoin(held.as('held'), 'held.lock_key', 'node.id')
    .select(['id', 'state', 'pool', 'slots', 'tasks', 'software', 'lost_after_ms'])
    .select([
      sql<number>`extract(epoch from clock_timestamp() - heartbeat)::float8 * 1000`.as('beat_ms'),
      sql<number>`extract(epoch from clock_timestamp() - started)::float8 * 1000`.as('age_ms'),
      sql<number>`coalesce(held.leases, 0)`.as('leases'),
      // a node claims ahead only while its slots are taken: what exceeds them waits in it
      sql<number>`least(coalesce(held.units, 0), slots)`.as('slots_in_use'),
    ])
    .orderBy(stateOrder)
    .orderBy('id')
    .execute();
  return rows.map((row) => ({
    id: row.id,
    state: row.state,
    overdue: (row.state === 'alive' || row.state === 'draining') && row.beat_ms > row.lost_after_ms,
    pool: row.pool,
    slots: row.slots,
    leases: row.leases,
    slotsInUse: row.slots_in_use,
    tasks: row.tasks,
    heartbeatAgeMs: row.beat_ms,
    ageMs: row.age_ms,
    software: row.software,
  }));
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
