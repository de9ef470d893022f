import type { JobStatus, Rate, Time } from './common.ts';

/** What can be done with jobs. */
export type JobAction =
  /** Due now if it waits; back into QUEUE if it is dead. */
  | { readonly kind: 'retry' }
  /** Due now, whatever it waits for. */
  | { readonly kind: 'run_now' }
  /** A waiting job ends at once; a running one's signal aborts. */
  | { readonly kind: 'cancel' }
  /** A whole number of 32 bits; smaller runs first. */
  | { readonly kind: 'reprioritise'; readonly priority: number }
  /** Without a trace, wherever it stands, unless it runs. */
  | { readonly kind: 'delete' };

/** Body of POST /api/actions/jobs. */
export interface JobsAction {
  /** 1 to 1000. */
  readonly ids: readonly string[];
  readonly action: JobAction;
}

/** What became of a job that was named. */
export interface JobVerdict {
  readonly id: string;
  readonly verdict:
    | 'changed'
    | 'redriven'
    | 'cancelled'
    /** It runs, and is told. */
    | 'signalled'
    | 'erased'
    /** It changed hands at every one of some tries: ask again. */
    | 'busy'
    /** Nothing was done: see `status`. */
    | 'unchanged'
    | 'missing';
  /** Of one with which nothing was done: where it stands; null: there is no such job, or something was done. */
  readonly status: JobStatus | null;
}

/** Answer to POST /api/actions/jobs: in the order of the naming. */
export interface JobsActionResult {
  readonly verdicts: readonly JobVerdict[];
  /** How many were changed, redriven, cancelled, signalled or erased. */
  readonly done: number;
  readonly undo: Undo | null;
}

/** An action that can be taken back, for a while, by the process that did it. */
export interface Undo {
  /** For POST /api/actions/undo. */
  readonly id: string;
  readonly until: Time;
}

/** Body of POST /api/actions/undo. */
export interface UndoRequest {
  readonly id: string;
}

/** Answer to POST /api/actions/undo. Jobs that have gone on meanwhile stay as they are. */
export interface UndoResult {
  readonly undone: number;
  readonly missed: number;
}

/** Body of POST /api/actions/queue. What is left out stays; null clears. */
export interface QueueAction {
  readonly queue: string;
  readonly settings: {
    readonly paused?: boolean;
    readonly pool?: string | null;
    /** Null: 7 days. */
    readonly retentionMs?: number | null;
    readonly concurrency?: number | null;
    readonly keyConcurrency?: number | null;
    /** Without a burst: what the rate gives in a second, at least 1. */
    readonly rate?: Pick<Rate, 'perSecond'> | Rate | null;
    readonly keyRate?: Pick<Rate, 'perSecond'> | Rate | null;
    readonly keyPending?: number | null;
    readonly weight?: number | null;
  };
}

/** Answer to POST /api/actions/queue. */
export interface QueueActionResult {
  /** The queue had no settings, and no job waits in it: was another one meant? */
  readonly isNew: boolean;
  readonly undo: Undo | null;
}

/** Body of POST /api/actions/node. */
export interface NodeAction {
  readonly node: string;
  /** Takes back everything that it holds, and ends its incarnation. */
  readonly action: 'reset';
}

/** Answer to POST /api/actions/node: what became of the jobs that it held. */
export interface NodeActionResult {
  readonly ready: number;
  readonly dead: number;
  readonly cancelled: number;
}

/** Body of POST /api/actions/schedule. */
export interface ScheduleAction {
  readonly name: string;
  /** `run_now` enqueues what the schedule would, now, beside its slots. */
  readonly action: 'run_now' | 'pause' | 'resume';
}

/** Answer to POST /api/actions/schedule. */
export interface ScheduleActionResult {
  /** The job of `run_now`; else null. */
  readonly job: string | null;
  readonly undo: Undo | null;
}
