import type { Json } from '../job/job.ts';

import type { Lane } from './snapshot.ts';

/** A job to dispatch, and where. */
export interface PlannedJob {
  readonly id: string;
  /** The pool whose nodes are to run it. */
  readonly pool: string;
  /** The id of the first of the jobs that one handler call takes together; such jobs follow one another. */
  readonly bundle?: string;
}

/** Something of a policy that failed during a plan, and was worked around. */
export interface PolicyFault {
  /** The gate or order. */
  readonly part: string;
  readonly error: unknown;
  /** What was done about it: the jobs that it was asked about were held, it was left out, or its lanes took turns. */
  readonly instead: 'held' | 'ignored' | 'turns';
}

/** Held jobs of the snapshot, by queue and reason: the name of a gate, or `no_free_slot`, `no_capable_node`, `batch_full`. */
export type HeldCounts = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** A lane of which gates hold everything: its jobs are not considered one by one. */
export interface ClosedLane {
  readonly lane: Lane;
  /** The gate that holds the lane as a whole; null: its jobs are held, each of them by a gate of its own perhaps. */
  readonly gate: string | null;
  /** By reason: how many jobs, those that are not shown among them. */
  readonly counts: ReadonlyMap<string, number>;
  /** Why a job of the lane is held, by its place there. */
  readonly reasonOf: (place: number) => string;
}

/** Those lanes. There may be thousands, of which only some are ever asked about. */
export interface ClosedLanes {
  /** Of a lane of the snapshot; undefined: something of it was considered. */
  readonly of: (lane: Lane) => ClosedLane | undefined;
  readonly all: () => Iterable<ClosedLane>;
}

/** There are none. */
export const noneClosed: ClosedLanes = { of: () => undefined, all: () => [] };

/** What a plan holds, without going through all of it. */
export interface Holds {
  /** Of jobs that were considered. */
  readonly jobs: ReadonlyMap<string, string>;
  /** Of lanes that were considered, and then held as a whole, by {@link laneName}. */
  readonly lanes: ReadonlyMap<string, string>;
  readonly closed: ClosedLanes;
}

/** A policy's answer to a snapshot. */
export interface Plan {
  /** In the order in which the jobs are to be claimed. */
  readonly dispatch: readonly PlannedJob[];
  readonly held: HeldCounts;
  /** The state for the next plan; a part that did not change is the same object. */
  readonly state: PolicyState;
  /** Scheduled jobs without a lease that are to be taken back: they are planned anew at once, together with what outranks them. */
  readonly recall?: readonly string[];
  /** The earliest time at which something held may go, by time alone. */
  readonly nextMs?: number | null;
  /** Of each job that was held, the reason. Lanes that are held as a whole are not listed. Of `policy()`: made when it is read. */
  readonly reasons?: ReadonlyMap<string, string>;
  /** Of lanes that are held as a whole (by {@link laneName}): the gate. */
  readonly laneReasons?: ReadonlyMap<string, string>;
  /** The same as both, for those who need not go through all that is held. Default: it is made of them. */
  readonly holds?: Holds;
  /** Lanes (by {@link laneName}) that can't be judged before they are read anew. */
  readonly stale?: readonly string[];
  /** Lanes (by {@link laneName}) of which more jobs must be seen, and how many: for a bundle. */
  readonly deepen?: ReadonlyMap<string, number>;
  readonly faults?: readonly PolicyFault[];
  readonly forecast?: Readonly<Record<string, number>>;
}

/** The state of a policy: one part for each gate or order that keeps any, by its name. Plain JSON. */
export type PolicyState = Readonly<Record<string, Json>>;
