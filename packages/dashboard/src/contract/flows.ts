import type { Count, PageQuery, Time } from './api.ts';

/** State of a flow. Failed: a step failed or was cancelled, and no other step takes that as its end. */
export type FlowState = 'open' | 'done' | 'failed' | 'cancelled';

/** Selects the flows that match all given fields. */
export interface FlowFilter {
  readonly state?: FlowState;
  readonly name?: string;
  readonly key?: string;
}

/** Query of GET /api/flows. */
export interface FlowsQuery extends FlowFilter, PageQuery {}

/** Numbers of a flow's steps and jobs, as the leading scheduler counted them last. */
export interface FlowProgress {
  readonly steps: number;
  readonly stepsEnded: number;
  /** Jobs of all steps, also of those that are still blocked. */
  readonly added: number;
  readonly done: number;
  readonly dead: number;
  /** Jobs that were cancelled, expired or erased. */
  readonly other: number;
}

/** A flow in a list. */
export interface FlowRow {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  readonly uniqueKey: string | null;
  readonly state: FlowState;
  /** Reason of its failure or cancellation, for people. */
  readonly reason: string | null;
  readonly created: Time;
  /** Age by the database's clock. */
  readonly ageMs: number;
  readonly deadline: Time | null;
  /** Time at which its cancellation was asked for. It is open until the last of its jobs has ended. */
  readonly stopping: Time | null;
  readonly ended: Time | null;
  /** Job that waits for its end without a slot, or has waited; null: none. */
  readonly waiter: string | null;
  readonly progress: FlowProgress;
}

/** Answer to GET /api/flows, newest first. */
export interface FlowsPage {
  readonly items: readonly FlowRow[];
  readonly next: string | null;
  /**
   * Set if the page reached its limit of 5,000 examined flows. The page then has fewer items than requested,
   * perhaps none, and a `next`. Null: the page is full, or the last.
   */
  readonly lookedBackTo: Time | null;
}

/** Flows of the whole installation. */
export interface FlowCounts {
  readonly open: Count;
  /** Failed flows that are still kept, which is for seven days. */
  readonly failed: Count;
  /** Age of the oldest open one; null: none is open. */
  readonly oldestMs: number | null;
}

/** Outcome that meets a need: `done`, `failed` (or cancelled), or any (`ended`). */
export type NeedCondition = 'done' | 'ended' | 'failed';

/** A step of a flow. Its jobs are numbers only, however many they are. */
export interface FlowStep {
  /** Its number, from 0; steps are listed in the order of their numbers, each after those that it needs. */
  readonly step: number;
  readonly name: string;
  readonly kind: 'jobs' | 'signal' | 'timer';
  readonly state: 'blocked' | 'open' | 'ended';
  /** Null until it has ended. Skipped: what it waited for can't come any more. */
  readonly outcome: 'done' | 'failed' | 'cancelled' | 'skipped' | null;
  /** Numbers of the steps that it needs, with the condition of each. */
  readonly needs: readonly (readonly [step: number, condition: NeedCondition])[];
  /** Opens when all of its needs are met, or any of them. */
  readonly wants: 'all' | 'any';
  /** Number of steps on the longest way to it through needs. */
  readonly layer: number;
  readonly added: number;
  readonly done: number;
  readonly dead: number;
  readonly other: number;
  /** Dead jobs after which its other jobs are cancelled; null: no number is. */
  readonly stopAfter: number | null;
  /** Its jobs are being cancelled. */
  readonly stopping: boolean;
  /** Its value has been given; false for other steps than signals. */
  readonly signalled: boolean;
  /** Time of a timer from its opening to its end; null for other steps. */
  readonly delayMs: number | null;
  /** End of an open timer. */
  readonly due: Time | null;
  readonly opened: Time | null;
  readonly ended: Time | null;
}

/** Explanation of a step that has not ended, as in `pgqueue flows show`. */
export interface StepWaits {
  readonly step: number;
  readonly text: string;
}

/** Answer to GET /api/flows/:id. */
export interface FlowPage {
  readonly at: Time;
  readonly flow: FlowRow;
  readonly steps: readonly FlowStep[];
  /** Steps that have not ended, and what they wait for: up to 100, open ones first. */
  readonly waits: readonly StepWaits[];
  /** Number of further ones. */
  readonly moreWaits: number;
  /** The scheduler that leads; null: none does, so no step ends or opens. */
  readonly leader: string | null;
  /** Actions possible now; empty for viewers. */
  readonly actions: readonly FlowAction['kind'][];
}

/** Query of GET /api/flows/:id/results. */
export interface FlowResultsQuery extends PageQuery {
  /** Name of the step. */
  readonly step: string;
}

/** End of one job of a step. */
export interface FlowResult {
  /** Id of the job; null: the value of a signal. */
  readonly job: string | null;
  readonly outcome: 'done' | 'dead' | 'cancelled' | 'expired' | 'erased';
  /**
   * Result as JSON text after the redact hook; for a job up to 2,000 characters. Null: it has none, or this
   * user sees no payloads.
   */
  readonly result: string | null;
  /** The text was cut; the job's page has it whole. */
  readonly cut: boolean;
  /** The redact hook changed it. */
  readonly redacted: boolean;
}

/**
 * Answer to GET /api/flows/:id/results, in the order of job ids. A job that was done without a result is not
 * listed.
 */
export interface FlowResults {
  readonly items: readonly FlowResult[];
  readonly next: string | null;
  /** This user sees results. */
  readonly seesResults: boolean;
}

/** An action on a flow. */
export type FlowAction =
  /** Gives a signal its value, any JSON; the first one counts, also before the step is open. */
  | { readonly kind: 'signal'; readonly step: string; readonly value: unknown }
  /** Ends its waiting jobs, aborts the signals of running ones, skips the steps that wait. */
  | { readonly kind: 'cancel'; readonly reason?: string }
  /** Runs what failed again. `step`: only what failed in this step and behind it. */
  | { readonly kind: 'retry'; readonly step?: string };

/** Body of POST /api/actions/flow. */
export interface FlowActionRequest {
  readonly id: string;
  readonly action: FlowAction;
}

/** Answer to POST /api/actions/flow. */
export interface FlowActionResult {
  /**
   * `repeated`: the signal has a value already. `ended`: the flow or the step has ended. `nothing`: no step has
   * failed. `stopping`: it is being cancelled. `key_taken`: another open flow has its unique key.
   */
  readonly verdict:
    | 'signalled'
    | 'repeated'
    | 'ended'
    | 'cancelling'
    | 'retried'
    | 'nothing'
    | 'stopping'
    | 'key_taken';
  /** Jobs that a retry put back. */
  readonly jobs: number;
  /** Jobs that it could not put back: neither the dead letters nor the history have them. */
  readonly gone: number;
  /** The flow that has the unique key; else null. */
  readonly holder: string | null;
}
