import type { PolicyState } from './plan.ts';
import type { Json } from '../job/job.ts';
import type { Plan } from './plan.ts';
import type { JobFacts, Lane, Snapshot } from './snapshot.ts';

/** One saved part of a state. `savedMs`: the database's time at which it was saved with a batch. */
export interface SavedPart {
  readonly state: Json;
  readonly savedMs: number;
}

/** Result of writing a plan: the ids of the written jobs, and the database's time of the write. */
export interface Written {
  readonly atMs: number;
  readonly ids: ReadonlySet<string>;
}

/**
 * Parts of the snapshot that a gate, order or policy needs, and that are only read on demand because of their
 * cost.
 */
export interface Needs {
  /** `Snapshot.settled`. */
  readonly settlements?: boolean;
  /** `Snapshot.health`. */
  readonly health?: boolean;
}

/**
 * Fetch of outside data, independent of ticks: a plan stays synchronous, and reads the value that was fetched
 * last.
 */
export interface Preparation {
  /** Name under which the value is in `Snapshot.prepared`. */
  readonly name: string;
  readonly everyMs: number;
  /**
   * Longest time of a fetch, in milliseconds. A slower one is aborted, reported, and counts as failed; the
   * last value stays.
   */
  readonly deadlineMs: number;
  /**
   * Milliseconds after the start of its fetch at which a value is dropped, by this process's monotonic clock: gates then
   * see none, as before the first fetch. Default: a value stays until the next one.
   */
  readonly validMs?: number;
  /** `leading`: undefined for a policy that dispatches nothing, such as a shadow. */
  readonly fetch: (signal: AbortSignal, leading?: Leading) => Promise<Json>;
}

/** The leader that fetches a value. */
export interface Leading {
  /** Its name, which no other leader has. */
  readonly leader: string;
  /** Number of its term, greater than those before. */
  readonly epoch: number;
  /** State of the gate or order after its last written plan; undefined: it keeps none. */
  readonly state: Json | undefined;
}

/**
 * A scheduler's watch over a plan being made. Without one, a plan depends on its snapshot and state alone.
 */
export interface Watch {
  /**
   * Gate or order being asked, and the job that it is asked about. Named when the call does not return in
   * time.
   */
  part: string;
  job: string | null;
  /**
   * Reports whether the part is not to be asked (about this job), because an earlier call did not return. It
   * then counts as failed.
   */
  readonly avoids: (part: string, job: string | null) => boolean;
  /**
   * Reports whether the plan must end with the jobs that it has. The rest of its time is for finishing it.
   */
  readonly late: () => boolean;
  /**
   * Set when the plan is made beside the ticks, for a snapshot that none of them sees. A policy then
   * remembers nothing of it. Default false.
   */
  readonly aside?: boolean;
}

/** Reason for which a rule holds a job. */
export interface Hold {
  /** Name of the gate. */
  readonly gate: string;
  /** Explanation with numbers: `tenant acme has 5 of 5 running`. */
  readonly message: string;
  /**
   * Time at which the hold may end by time alone. Null: it ends by other events, such as the end of a job or
   * a new node. {@link neverMs}: it stays until somebody changes the rule.
   */
  readonly untilMs: number | null;
  /**
   * Set when the rule lets jobs go as others end, as a limit does: recent throughput then tells when this one
   * may go. Default false.
   */
  readonly paced?: boolean;
}

/**
 * Value of {@link Hold.untilMs} for a job that can't go with the present settings: the latest time that a
 * Date can hold, in milliseconds.
 */
export const neverMs = 8.64e15;

/** A policy's answer about one waiting job. */
export interface Explanation {
  /**
   * Every rule that holds the job at present, in the order in which rules are asked. Empty: it only waits for
   * its turn.
   */
  readonly holds: readonly Hold[];
  /**
   * Number of jobs in the snapshot that would go before it if no rule held any. Null: the policy can't tell.
   */
  readonly ahead: number | null;
}

/**
 * Decides which waiting jobs are dispatched next. Synchronous and deterministic: no clock, no randomness, no
 * I/O. A plan depends on the snapshot and the state alone, and the same snapshot in another order gives the
 * same plan.
 *
 * Most policies are made by `policy({ gates, order })`. A policy that is written as a whole must itself keep
 * to the limits of queue_config (`standardGates`), and is checked for it. A policy that throws, takes too
 * long, or returns a plan that can't be written is reported (event `policy.failed`, and `status`). That tick
 * falls back to FIFO per key within the same limits.
 */
export interface Policy {
  readonly name: string;
  /** State of the very first plan. */
  readonly initial: PolicyState;
  /**
   * Makes a state from the parts that the last leader saved; an older release may have written them. Default:
   * takes them as they are.
   */
  readonly restore?: (saved: Readonly<Record<string, SavedPart>>) => PolicyState;
  /** Makes a plan. `watch`: given by a scheduler, for policies made of parts. */
  readonly plan: (snapshot: Snapshot, state: PolicyState, watch?: Watch) => Plan;
  /**
   * Returns the plan's state after its write, when the written jobs are known. Default: the state as it is.
   */
  readonly written?: (state: PolicyState, written: Written) => PolicyState;
  readonly explain?: (
    snapshot: Snapshot,
    state: PolicyState,
    job: JobFacts,
    lane: Lane,
    watch?: Watch,
  ) => Explanation;
  readonly needs?: Needs;
  readonly prepare?: readonly Preparation[];
  /**
   * Returns the kind of a job: waiting jobs of a lane that have one kind are alike to the policy's gates.
   * When jobs are held, a snapshot needs to show only the first few of each kind, however many wait.
   * Undefined: the policy can't tell kinds.
   */
  readonly kindOf?: ((job: JobFacts) => string) | undefined;
  /**
   * A promise that a held job can go by time alone only when {@link Plan.nextMs} says so. Default: it may go
   * at any time.
   */
  readonly tellsTime?: boolean;
  /**
   * Names of parts that may be saved up to a second late (fairness). All others are saved with each batch
   * (rates).
   */
  readonly softParts?: readonly string[];
  /**
   * The `plan` function that asks {@link standardGates} itself. Only `policy()` sets it; it has no effect
   * together with another `plan`.
   */
  readonly guarded?: Policy['plan'];
  /** The `plan` function of a policy that contains no function of the user's. Only `policy()` sets it. */
  readonly trusted?: Policy['plan'];
  /**
   * Policy that plans while this one fails: FIFO per key, within the gates of this policy that are limits
   * (onError `hold`), with their state.
   */
  readonly fallback?: Policy;
}
