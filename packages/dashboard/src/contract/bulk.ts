import type { Count, Time } from './common.ts';
import type { JobAction, Undo } from './actions.ts';
import type { DeadFilter } from './dead.ts';
import type { JobFilter, JobRow } from './jobs.ts';

/** Body of POST /api/bulk and /api/bulk/preview: one action over all jobs that a filter finds. */
export type BulkRequest =
  | {
      readonly over: 'jobs';
      readonly filter: JobFilter;
      readonly action: JobAction;
    }
  | {
      /** `delete` purges them. */
      readonly over: 'dead';
      readonly filter: DeadFilter;
      readonly action: { readonly kind: 'redrive' } | { readonly kind: 'delete' };
    };

/** Answer to POST /api/bulk/preview. */
export interface BulkPreview {
  /** Jobs that the filter finds now, as far as one look goes: some thousands. */
  readonly jobs: Count;
  /** The first of them, 10 at most. */
  readonly sample: readonly JobRow[];
  /** Whether it can be taken back. */
  readonly undoable: boolean;
}

/** A bulk action, under way or ended. It is of the process that began it, and ends with that. */
export interface BulkRun {
  readonly id: string;
  readonly actor: string;
  /** But for the value that was looked for in payloads. */
  readonly request: BulkRequest;
  readonly state: 'running' | 'done' | 'stopped' | 'failed';
  readonly begun: Time;
  readonly ended: Time | null;
  /** Jobs that were looked at so far, and with how many of them something was done. */
  readonly seen: number;
  readonly done: number;
  /** As counted when it began. */
  readonly total: Count;
  /** Why it failed. */
  readonly error: string | null;
  /** Once it has ended. */
  readonly undo: Undo | null;
}

/** Answer to GET /api/bulk: the newest first, 50 at most. */
export interface BulkRuns {
  readonly runs: readonly BulkRun[];
}
