import type { JobStatus, Rate, Time } from './api.ts';

/** An action on jobs. */
export type JobAction =
  /** Makes a delayed job due now; puts a dead job back into its queue. */
  | { readonly kind: 'retry' }
  /** Makes a waiting job due now, whatever delay or backoff it has. */
  | { readonly kind: 'run_now' }
  /** Ends a waiting job at once; aborts the signal of a running one. */
  | { readonly kind: 'cancel' }
  /** Sets the priority, a 32-bit integer; smaller runs first. */
  | { readonly kind: 'reprioritise'; readonly priority: number }
  /** Removes a job without a trace, in any state but running. */
  | { readonly kind: 'delete' };

/** Body of POST /api/actions/jobs. */
export interface JobsAction {
  /** 1 to 1000 ids. */
  readonly ids: readonly string[];
  readonly action: JobAction;
}

/** Result of an action for one job. */
export interface JobVerdict {
  readonly id: string;
  readonly verdict:
    | 'changed'
    | 'redriven'
    | 'cancelled'
    /** The job runs; its signal is aborted. */
    | 'signalled'
    | 'erased'
    /** The job changed hands during each of several attempts: ask again. */
    | 'busy'
    /** Nothing was done: see `status`. */
    | 'unchanged'
    | 'missing';
  /** State of a job with which nothing was done. Null: there is no such job, or something was done. */
  readonly status: JobStatus | null;
}

/** Answer to POST /api/actions/jobs, in the order of the ids. */
export interface JobsActionResult {
  readonly verdicts: readonly JobVerdict[];
  /** Number of jobs changed, redriven, cancelled, signalled or erased. */
  readonly done: number;
  readonly undo: Undo | null;
}

/** An action that the process that ran it can undo, until `until`. There is none where it changed nothing. */
export interface Undo {
  /** Id for POST /api/actions/undo. */
  readonly id: string;
  readonly until: Time;
}

/** Body of POST /api/actions/undo. */
export interface UndoRequest {
  readonly id: string;
}

/**
 * Answer to POST /api/actions/undo: jobs, settings of a queue, or a schedule. Those that have changed in the meantime stay
 * as they are (`missed`).
 */
export interface UndoResult {
  readonly undone: number;
  readonly missed: number;
}

/** Body of POST /api/actions/queue. Settings left out stay; null resets one to its default. */
export interface QueueAction {
  readonly queue: string;
  readonly settings: {
    readonly paused?: boolean;
    readonly pool?: string | null;
    /** Null: 7 days. */
    readonly retentionMs?: number | null;
    readonly concurrency?: number | null;
    readonly keyConcurrency?: number | null;
    /** Default burst: the jobs of one second, at least 1. */
    readonly rate?: Pick<Rate, 'perSecond'> | Rate | null;
    readonly keyRate?: Pick<Rate, 'perSecond'> | Rate | null;
    readonly keyPending?: number | null;
    readonly weight?: number | null;
  };
}

/** Answer to POST /api/actions/queue. */
export interface QueueActionResult {
  /** The queue had neither settings nor waiting jobs: the name may be mistyped. */
  readonly isNew: boolean;
  readonly undo: Undo | null;
}

/** Body of POST /api/actions/node. */
export interface NodeAction {
  readonly node: string;
  /** Takes back everything that the node holds and ends its incarnation. */
  readonly action: 'reset';
}

/** Answer to POST /api/actions/node: the jobs it held, by their state afterwards. */
export interface NodeActionResult {
  readonly ready: number;
  readonly dead: number;
  readonly cancelled: number;
}

/** Body of POST /api/actions/schedule. */
export interface ScheduleAction {
  readonly name: string;
  /** `run_now` enqueues the schedule's job at once, in addition to its slots. */
  readonly action: 'run_now' | 'pause' | 'resume';
}

/** Answer to POST /api/actions/schedule. */
export interface ScheduleActionResult {
  /** Id of the job that `run_now` enqueued; else null. */
  readonly job: string | null;
  readonly undo: Undo | null;
}
