import type { Json } from '../job/job.ts';
import type { Gate } from './gate.ts';
import type { Needs, Preparation, Written } from './policy.ts';
import type { Candidate, JobFacts, Lane, Snapshot } from './snapshot.ts';

/**
 * A scheduling rule that says whose job goes first. It chooses among lanes; within a lane, jobs go by
 * priority, then `seq`. Its choice must not depend on the order of `snapshot.lanes`.
 */
export interface Order<State extends Json = Json> {
  /** Name of the order and of its state, different from those of the gates. */
  readonly name: string;
  /** State of the very first plan. Only for orders that keep state. */
  readonly initial?: State;
  /** Makes a state from the saved one. Default: takes the saved state as it is. */
  restore?(saved: Json, savedMs: number): State;
  open(snapshot: Snapshot, state: State, heads: Heads): OpenOrder<State>;
  written?(state: State, written: Written): State;
  /**
   * Reports whether `job` should go before `other`, which is scheduled but not leased. If so, `other` may be
   * recalled.
   */
  readonly outranks?: (job: JobFacts, other: JobFacts, nowMs: number) => boolean;
  /** Gates that belong to the order (a share's burst maximum). */
  readonly gates?: readonly Gate[];
  readonly needs?: Needs;
  readonly prepare?: Omit<Preparation, 'name'>;
  /** Set when its state may be saved up to a second late. */
  readonly soft?: boolean;
}

/** Head of each lane during one plan. It moves on as jobs are taken or passed over. */
export interface Heads {
  /** Returns the head of a lane, or undefined when nothing of the lane is left for this plan. */
  readonly of: (lane: Lane) => Candidate | undefined;
  /**
   * Returns the lanes that an order has to go through: all lanes of the snapshot, except those of which gates
   * already hold everything.
   */
  readonly lanes: () => readonly Lane[];
}

/** An order during one plan. */
export interface OpenOrder<State extends Json = Json> {
  /**
   * Returns the lane whose head should go next, or undefined when no lane has a head. Returns the same again
   * until `taken` or `passed` is called. A lane without a head, while others have one, counts as a failure.
   */
  readonly next: () => Lane | undefined;
  /**
   * Records that a job of the lane goes. The lane's head has moved on. `member`: the job joins the bundle of
   * the job before it, and takes no slot.
   */
  readonly taken: (lane: Lane, job: Candidate, member?: boolean) => void;
  /** Records that a gate holds the lane's head. The head has moved on, or is gone. */
  readonly passed: (lane: Lane, job: Candidate) => void;
  /**
   * Records that no job finds a place in that pool for the rest of the plan: its lanes need not be offered.
   * Without this function, each of their heads is passed.
   */
  readonly full?: (pool: string) => void;
  /** State after the plan. */
  readonly state?: () => State;
  /** Forecasts for `status`, such as missed deadlines: counts by name. */
  readonly forecast?: () => Readonly<Record<string, number>>;
}
