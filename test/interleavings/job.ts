// One job as the tables have it.

export type Where = 'pending' | 'delayed' | 'ready' | 'running' | 'done' | 'cancelled' | 'dead';

export interface JobState {
  readonly where: Where;
  readonly tries: number;
  readonly crashes: number;
  /** Token of the lease; null without one. */
  readonly token: string | null;
  readonly node: NodeId | null;
  /** Its lease has run out. */
  readonly expired: boolean;
  /** Its cancellation was asked for. */
  readonly stop: boolean;
  readonly row: Row;
}

/**
 * Row of its work item. `own`: a row of its own, or none; `whole`: the batch that it started in; `rest`: the
 * rest of that batch after others were taken out; `new`: a batch that was dispatched later.
 */
type Row = 'own' | 'whole' | 'rest' | 'new';

export type NodeId = 'n1' | 'n2';

/**
 * State of n1. `gone`: its heartbeat is recent, but its session has ended; `replaced`: another incarnation
 * has its id.
 */
export type NodeState = 'beats' | 'silent' | 'gone' | 'ended' | 'replaced';

/** A job, and the node n1. */
export interface World {
  readonly job: JobState;
  readonly n1: NodeState;
}

export type Outcome = 'done' | 'retry' | 'snooze' | 'dead';

/** An operation's effect on the job, and its answer to the caller; undefined: no answer about this job. */
export interface Effect {
  readonly world: World;
  readonly told: string | undefined;
}

export const limits = { tries: 3, crashes: 3 } as const;

export const standsInQueue = ({ where }: JobState): boolean =>
  where !== 'done' && where !== 'cancelled' && where !== 'dead';

/** No lease, and a row of its own. */
export const unleased = { token: null, node: null, expired: false, stop: false, row: 'own' } as const;

/** True if n1 holds the job under the token that it names. */
export const isHeld = ({ where, token }: JobState): boolean => where === 'running' && token === 't1';

/** True if n1 may claim and send heartbeats. */
export const isAlive = ({ n1 }: World): boolean => n1 === 'beats' || n1 === 'silent' || n1 === 'gone';
