import type { PolicyState } from './plan.ts';
import type { Json } from '../job/job.ts';
import type { Plan } from './plan.ts';
import type { JobFacts, Lane, Snapshot } from './snapshot.ts';

/** One part as it was saved: with the batch, at this time of the database's clock. */
export interface SavedPart {
  readonly state: Json;
  readonly savedMs: number;
}

/** What became of a plan: its jobs that were written, and the database's time at which they were. */
export interface Written {
  readonly atMs: number;
  readonly ids: ReadonlySet<string>;
}

/** What a gate, order or policy needs of the snapshot beside the rest: reading it has a cost. */
export interface Needs {
  /** Snapshot.settled. */
  readonly settlements?: boolean;
  /** Snapshot.health. */
  readonly health?: boolean;
}

/** Data from outside, fetched beside the ticks: the plan stays synchronous, and reads what was fetched last. */
export interface Preparation {
  /** Under this name the value is in Snapshot.prepared. */
  readonly name: string;
  readonly everyMs: number;
  /** A fetch that takes longer is aborted, reported, and counts as failed; the last value stays. */
  readonly deadlineMs: number;
  readonly fetch: (signal: AbortSignal) => Promise<Json>;
}

/** A scheduler's eye on a plan in the making. Without one, a plan depends on its snapshot and state alone. */
export interface Watch {
  /** The gate or order that is being asked, and about which job: what is named where it does not come back. */
  part: string;
  job: string | null;
  /** Whether it is not asked (about this job) any more, because it did not come back; then it counts as failed. */
  readonly avoids: (part: string, job: string | null) => boolean;
  /** Whether the plan has to do with what it has so far: the rest of its time is for ending it. */
  readonly late: () => boolean;
}

/** Why a rule holds a job. */
export interface Hold {
  /** The name of the gate. */
  readonly gate: string;
  /** In words, with numbers: `tenant acme has 5 of 5 running`. */
  readonly message: string;
  /**
   * When that may change by time alone; null: not by time, but when other jobs end, nodes come, and the like; {@link neverMs}: not before
   * somebody changes the rule.
   */
  readonly untilMs: number | null;
  /** It lets jobs go as others end, as a limit does: so how fast they went lately tells when this one may. Default: no. */
  readonly paced?: boolean;
}

/** {@link Hold.untilMs} of a job that can't go as things are set: the last millisecond that a Date can tell. */
export const neverMs = 8.64e15;

/** A policy's answer about one waiting job. */
export interface Explanation {
  /** Every rule that holds it at present, in the order in which they are asked. Empty: it waits for its turn only. */
  readonly holds: readonly Hold[];
  /** Jobs of the snapshot that would go before it if all rules let them; null: the policy can't say. */
  readonly ahead: number | null;
}

/**
 * Decides which waiting jobs are dispatched next. Synchronous and deterministic: no clock, no randomness, no I/O; all it may
 * know is in the snapshot and its state. The same snapshot in another order gives the same plan. Most are made by
 * `policy({ gates, order })`; one that is written as a whole must keep to the limits of queue_config itself
 * (`standardGates`), and is checked for it. One that throws, takes too long, or returns a plan that can't be written is reported
 * (event `policy.failed`, and `status`), and that tick falls back to FIFO per key within the same limits.
 */
export interface Policy {
  readonly name: string;
  /** The state of the very first plan. */
  readonly initial: PolicyState;
  /** Makes a state of what the last leader saved, which an older release may have written. Default: takes it as it is. */
  readonly restore?: (saved: Readonly<Record<string, SavedPart>>) => PolicyState;
  /** `watch`: given by a scheduler, for policies made of parts. */
  readonly plan: (snapshot: Snapshot, state: PolicyState, watch?: Watch) => Plan;
  /** The plan's state, once it is known what was written. Default: as it is. */
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
   * Tells which waiting jobs of a lane are alike to its gates. Where something is held, the first few of each kind are enough to be seen,
   * however many jobs of it wait. Undefined: nothing is known of that.
   */
  readonly kindOf?: ((job: JobFacts) => string) | undefined;
  /** What it holds may go by time alone only when {@link Plan.nextMs} says so. Default: it may at any time. */
  readonly tellsTime?: boolean;
  /** Parts that may be saved up to a second late (fairness), while the others are saved with each batch (rates). */
  readonly softParts?: readonly string[];
  /** The `plan` that asks {@link standardGates} itself. Only `policy()` sets it; with another `plan` it says nothing. */
  readonly guarded?: Policy['plan'];
  /** The plan function of a policy in which no function of the user's is. Only `policy()` sets it. */
  readonly trusted?: Policy['plan'];
  /** Plans in its place while it fails: within those of its gates that are limits (onError `hold`), with their state; FIFO per key. */
  readonly fallback?: Policy;
}
