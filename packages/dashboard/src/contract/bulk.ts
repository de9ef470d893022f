import type { Count, Time } from './api.ts';
import type { JobAction, Undo } from './actions.ts';
import type { DeadFilter } from './dead.ts';
import type { JobFilter, JobRow } from './jobs.ts';

/** Body of POST /api/bulk and /api/bulk/preview: one action on all jobs that a filter finds. */
export type BulkRequest =
  | {
      readonly over: 'jobs';
      readonly filter: JobFilter;
      readonly action: JobAction;
    }
  | {
      /** `delete` purges dead letters. */
      readonly over: 'dead';
      readonly filter: DeadFilter;
      readonly action: { readonly kind: 'redrive' } | { readonly kind: 'delete' };
    };

/** Answer to POST /api/bulk/preview. */
export interface BulkPreview {
  /** Jobs that the filter finds now. The count stops early, at 10,000 at the latest. */
  readonly jobs: Count;
  /** The first 10 of them. */
  readonly sample: readonly JobRow[];
  /** The action can be undone. */
  readonly undoable: boolean;
}

/** A bulk action, running or ended. It belongs to the process that started it, and ends with that process. */
export interface BulkRun {
  readonly id: string;
  readonly actor: string;
  /** The request, without the value of a payload filter. */
  readonly request: BulkRequest;
  readonly state: 'running' | 'done' | 'stopped' | 'failed';
  readonly begun: Time;
  readonly ended: Time | null;
  /** Jobs examined so far; `done`: jobs changed. */
  readonly seen: number;
  readonly done: number;
  /** Count at the start. */
  readonly total: Count;
  /** Reason of the failure. */
  readonly error: string | null;
  /** Set after the end, if the action can be undone. */
  readonly undo: Undo | null;
}

/** Answer to GET /api/bulk: up to 50 runs, newest first. */
export interface BulkRuns {
  readonly runs: readonly BulkRun[];
}
