import type { NodeTasks } from '../connection/tables.ts';
import type { Lease } from './lease.ts';
import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

/** A node's description of itself when it starts. */
export interface NodeRegistration {
  readonly node: string;
  readonly incarnation: string;
  readonly tasks: NodeTasks;
  readonly slots: number;
  readonly pool: string;
  readonly heartbeatMs: number;
  readonly lostAfterMs: number;
  /** Name and version of the node's software, for people. */
  readonly software: string;
  /**
   * The heartbeat (as text) of the other incarnation, as an earlier, refused call returned it; null at first.
   */
  readonly seen: string | null;
}

/**
 * Answer to a registration. If it is refused: the last heartbeat, and the heartbeat's interval, of the
 * incarnation that has the id.
 */
export type NodeRegistered =
  | { readonly accepted: true }
  | {
      readonly accepted: false;
      readonly otherHeartbeat: string;
      readonly otherHeartbeatMs: number;
    };

/** Begins an incarnation: the SQL function `register_node` (its SQL says when it is refused). */
export async function registerNode(target: Target, input: NodeRegistration): Promise<NodeRegistered> {
  const [row] = await target.query<{
    accepted: boolean;
    other_heartbeat: string | null;
    other_heartbeat_ms: number | null;
  }>(
    `select accepted, other_heartbeat::text as other_heartbeat, other_heartbeat_ms
     from ${target.schema}.register_node($1, $2::jsonb, $3, $4, p_heartbeat_ms => $5, p_lost_after_ms => $6,
       p_software => $7, p_incarnation => $8::uuid, p_seen => $9::timestamptz)`,
    [
      input.node,
      JSON.stringify(input.tasks),
      input.slots,
      input.pool,
      input.heartbeatMs,
      input.lostAfterMs,
      input.software,
      input.incarnation,
      input.seen,
    ],
  );
  if (row?.accepted === true) return { accepted: true };
  return {
    accepted: false,
    otherHeartbeat: row?.other_heartbeat ?? '',
    otherHeartbeatMs: row?.other_heartbeat_ms ?? 5_000,
  };
}

/** Answer to a heartbeat. */
export interface Heartbeat {
  /** False: the node was reset, lost or replaced; it holds nothing, and must register anew. */
  readonly alive: boolean;
  /** Running jobs of this node that are to be cancelled. */
  readonly cancelled: readonly string[];
  /** Leases of {@link HeartbeatInput.leases} that the node does not hold any more. */
  readonly lost: readonly Lease[];
}

/** A node's description of itself with each heartbeat. */
export interface HeartbeatInput {
  readonly node: string;
  readonly incarnation: string;
  readonly draining: boolean;
  /** Leases to check. */
  readonly leases: readonly Lease[];
  /** Number of jobs that run in the node. Default: the number of `leases`. */
  readonly running?: number;
  /** Slots of handlers that run on although the time of their jobs is over. Default 0. */
  readonly hung?: number;
  /**
   * Pid of the session that the statement goes to, if the node keeps that for this alone: the node is lost
   * soon after it has ended.
   */
  readonly pid?: number | null;
}

/** Records a heartbeat, and returns what became of the node's leases. */
export async function heartbeatNode(target: Target, input: HeartbeatInput): Promise<Heartbeat> {
  const { node, incarnation, draining, leases, running = leases.length, pid = null, hung = 0 } = input;
  const [row] = await target.query<Omit<Heartbeat, 'lost'> & { readonly lost: readonly number[] }>(
    `select alive, cancelled::text[], lost
     from ${target.schema}.heartbeat_node($1, $2, $3, $4, p_ids => $5::uuid[], p_tokens => $6::uuid[], p_pid => $7, p_hung => $8)`,
    [
      node,
      incarnation,
      running,
      draining,
      leases.map(({ id }) => id),
      leases.map(({ token }) => token),
      pid,
      hung,
    ],
  );
  if (row === undefined) return { alive: false, cancelled: [], lost: leases };
  // by index: a node may hold a job under the lease that it lost, and under a new one
  return { ...row, lost: leases.filter((_lease, index) => row.lost.includes(index + 1)) };
}

/**
 * Reads the leases that the database ascribes to the node: the SQL function `held_leases`. None if the
 * incarnation has ended.
 */
export async function heldLeases(
  target: Target,
  { node, incarnation }: { readonly node: string; readonly incarnation: string },
): Promise<readonly Lease[]> {
  return target.query<Lease>(`select id, token from ${target.schema}.held_leases($1, $2::uuid)`, [
    node,
    incarnation,
  ]);
}

/**
 * Ends an incarnation in order; its leases are released, uncounted. False: the incarnation had ended already.
 */
export async function leaveNode(target: Target, node: string, incarnation: string): Promise<boolean> {
  return (await ask(target, 'leave_node($1, $2::uuid)', [node, incarnation])) === true;
}

/** Outcomes of the jobs that a reset node held, counted. */
export interface NodeReset {
  /** Jobs that other nodes can take: ready again, or, of a bundle, pending. */
  readonly ready: number;
  /** Jobs that reached their crash limit with this crash. */
  readonly dead: number;
  readonly cancelled: number;
}

/**
 * Takes back everything that a dead node holds, and ends its incarnation: its later statements are refused.
 */
export async function resetNode(target: Target, node: string): Promise<NodeReset> {
  const [row] = await target.query<NodeReset>(
    `select count(*) filter (where verdict in ('ready', 'pending'))::integer as ready,
            count(*) filter (where verdict = 'dead')::integer as dead,
            count(*) filter (where verdict = 'cancelled')::integer as cancelled
     from ${target.schema}.reset_node($1)`,
    [node],
  );
  return row ?? { ready: 0, dead: 0, cancelled: 0 };
}
