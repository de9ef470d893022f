import type { Json } from '../job/job.ts';

import type { Lane } from './snapshot.ts';

/** A job to dispatch, and its pool. */
export interface PlannedJob {
  readonly id: string;
  /** Pool whose nodes are to run it. */
  readonly pool: string;
  /**
   * Id of the first job of its bundle, which one handler call takes together. Jobs of a bundle are adjacent.
   */
  readonly bundle?: string;
}

/** Failure of a part of a policy that a plan worked around. */
export interface PolicyFault {
  /** Name of the gate or order. */
  readonly part: string;
  readonly error: unknown;
  /**
   * Workaround. `held`: the jobs that the gate was asked about were held; `ignored`: the gate was left out;
   * `turns`: lanes took turns in place of the order.
   */
  readonly instead: 'held' | 'ignored' | 'turns';
}

/**
 * Number of held jobs of the snapshot, by queue and reason: the name of a gate, or `no_free_slot`,
 * `no_capable_node`, `coalescing`, `batch_full`, `out_of_time`, `order_ended` (the order offered no lane, though jobs were
 * left that have a place).
 */
export type HeldCounts = Readonly<Record<string, Readonly<Record<string, number>>>>;

/**
 * A lane of which nothing can go: gates hold its jobs, or no node has a place for them. Its jobs are not
 * considered one by one.
 */
export interface ClosedLane {
  readonly lane: Lane;
  /** Gate that holds the lane as a whole. Null: its jobs are held one by one, perhaps by different gates. */
  readonly gate: string | null;
  /** Number of jobs by reason, including jobs that are not shown. */
  readonly counts: ReadonlyMap<string, number>;
  /** Returns the reason that holds a job of the lane, by the job's index in `lane.jobs`. */
  readonly reasonOf: (place: number) => string;
}

/** The closed lanes of a plan. There may be thousands, of which callers ask about few. */
export interface ClosedLanes {
  /** Returns a lane of the snapshot as closed, or undefined when some of its jobs were considered. */
  readonly of: (lane: Lane) => ClosedLane | undefined;
  readonly all: () => Iterable<ClosedLane>;
}

/** Result for a plan without closed lanes. */
export const noneClosed: ClosedLanes = { of: () => undefined, all: () => [] };

/** Reasons of all held jobs of a plan, without a list of every job. */
export interface Holds {
  /** Reason by job id, for jobs that were considered. */
  readonly jobs: ReadonlyMap<string, string>;
  /** Reason by {@link laneName}, for lanes that were considered and then held as a whole. */
  readonly lanes: ReadonlyMap<string, string>;
  readonly closed: ClosedLanes;
}

/** A policy's answer to a snapshot. */
export interface Plan {
  /** Jobs in the order in which nodes are to claim them. */
  readonly dispatch: readonly PlannedJob[];
  readonly held: HeldCounts;
  /** State for the next plan. A part that did not change is the same object. */
  readonly state: PolicyState;
  /**
   * Ids of scheduled jobs without a lease to recall. They are planned again at once, together with the jobs
   * that outrank them.
   */
  readonly recall?: readonly string[];
  /** Earliest time at which a held job may go by time alone. */
  readonly nextMs?: number | null;
  /**
   * Reason by job id, for each held job. Lanes that are held as a whole are not listed. A plan of `policy()`
   * computes it on first access.
   */
  readonly reasons?: ReadonlyMap<string, string>;
  /** Gate by {@link laneName}, for lanes that are held as a whole. */
  readonly laneReasons?: ReadonlyMap<string, string>;
  /**
   * Same as `reasons` and `laneReasons`, for callers that need not go through all held jobs. Default: derived
   * from these two.
   */
  readonly holds?: Holds;
  /** Lanes (by {@link laneName}) that can't be judged before they are read again. */
  readonly stale?: readonly string[];
  /**
   * Number of jobs that the next snapshot must show of a lane, by {@link laneName}: for a bundle, or because
   * all shown jobs of the lane went.
   */
  readonly deepen?: ReadonlyMap<string, number>;
  readonly faults?: readonly PolicyFault[];
  readonly forecast?: Readonly<Record<string, number>>;
}

/** State of a policy, as plain JSON: one part, by its name, for each gate or order that keeps state. */
export type PolicyState = Readonly<Record<string, Json>>;
