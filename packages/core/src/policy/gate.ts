import type { Json } from '../job/job.ts';
import type { Hold, Needs, Preparation, Written } from './policy.ts';
import type { Candidate, JobFacts, Lane, Snapshot } from './snapshot.ts';

/**
 * Answer of a gate about a job. `hold_lane`: neither this job nor any other of its lane can go in this plan.
 */
export type Verdict = 'admit' | 'hold' | 'hold_lane';

/** Groups the waiting jobs that are alike to a gate: see {@link Gate.groups}. */
export interface JobGroups {
  /**
   * Returns the name of the job's group, or null when the gate admits the job in any case. Must depend on the
   * job alone, and return the same each time.
   */
  readonly of: (job: JobFacts) => string | null;
  /** Set when `of` depends on the job's queue and key only. Default false. */
  readonly lane?: boolean;
}

/**
 * A scheduling rule that can hold a job back. A plan asks it about a job right before it would dispatch the
 * job, and tells it of every job that it dispatches. When several gates are composed, a job goes if all of
 * them admit it.
 */
export interface Gate<State extends Json = Json> {
  /** Name of the gate, unique within a policy: its reason in `status`, and the name of its state. */
  readonly name: string;
  /** State of the very first plan. Only for gates that keep state. */
  readonly initial?: State;
  /** Makes a state from the saved one. Default: takes the saved state as it is. */
  restore?(saved: Json, savedMs: number): State;
  /** Begins a plan. `state`: `initial`, or the state after the last plan. */
  open(snapshot: Snapshot, state: State): OpenGate<State>;
  /**
   * Returns the state of a plan after its write, when the written jobs and the time are known. Called after each
   * written plan in which the state of any part changed, also with a state that this gate left as it was: that one may
   * belong to an earlier plan, with other jobs. So keep the jobs that a state counts beside it (in a WeakMap), and take
   * nothing back from a state that is settled.
   */
  written?(state: State, written: Written): State;
  /**
   * Treatment of errors that the gate throws. `hold`: the job that it was asked about is held, with the
   * failure as its reason; for limits, which must never be exceeded. `ignore`: the gate does not hold that
   * job; if `open` or `take` throws, it is left out of this plan. Either way the failure is reported. Default
   * `ignore`.
   */
  readonly onError?: 'hold' | 'ignore';
  readonly needs?: Needs;
  readonly prepare?: Omit<Preparation, 'name'>;
  /** Set when its state may be saved up to a second late. */
  readonly soft?: boolean;
  /**
   * A promise that jobs of one group are alike: at any moment of a plan `admits` returns the same for each of
   * them (except members of a bundle), and once it holds one of them, it holds all of them until the plan
   * ends. The gate is then asked only once a plan about a group that it holds, however many jobs wait in it.
   * Default: it is asked about every job.
   */
  readonly groups?: JobGroups;
  /**
   * A promise that a held job can go by time alone only when {@link OpenGate.nextMs} says so. A simulation
   * then does not ask again before that time, unless something else has changed. Default false.
   */
  readonly tellsTime?: boolean;
}

/** A gate during one plan. */
export interface OpenGate<State extends Json = Json> {
  /**
   * Decides about a job, without changing anything. `member`: the job would join a bundle whose first job was
   * admitted, and takes no slot of its own.
   */
  readonly admits: (job: Candidate, lane: Lane, member: boolean) => Verdict;
  /** Records that the job goes. */
  readonly take?: (job: Candidate, lane: Lane, member: boolean) => void;
  /** Explains why a job is not admitted. Called for few jobs. */
  readonly why: (job: Candidate, lane: Lane) => Omit<Hold, 'gate'>;
  /** Earliest time at which a held job may go by time alone. The next plan is made then. */
  readonly nextMs?: () => number | null;
  /** Lanes held because they are not fresh. They are read again, and planned at once. */
  readonly unread?: () => readonly Lane[];
  /** State after the plan. */
  readonly state?: () => State;
  /** Failures that the gate worked around in the plan. They are reported like errors that a gate throws. */
  readonly faults?: () => readonly unknown[];
}

/** Verdict on a job. `gate`: the first gate that holds it, or `''`. */
export interface Judged {
  readonly verdict: Verdict;
  readonly gate: string;
}
