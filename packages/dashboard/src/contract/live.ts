import type { Count, Time } from './common.ts';
import type { BulkRun } from './bulk.ts';
import type { Warning, WorkerUse } from './overview.ts';

/** A queue in the live view. */
export interface LiveQueue {
  readonly queue: string;
  readonly paused: boolean;
  readonly delayed: Count;
  readonly pending: Count;
  readonly ready: Count;
  readonly running: Count;
  readonly dead: Count;
  readonly oldestMs: number | null;
  readonly claimAgeMs: number | null;
  readonly retryRate: number | null;
}

/** The whole installation at one look, about every two seconds: one read for all who look. */
export interface LiveSnapshot {
  /** The database's clock. */
  readonly at: Time;
  readonly leader: { readonly name: string | null; readonly epoch: number };
  readonly workers: WorkerUse;
  /** Jobs done a second, over the last five minutes. */
  readonly donePerSecond: number;
  /** Over all queues. */
  readonly totals: Omit<LiveQueue, 'queue' | 'paused'>;
  /** By name, 100 at most. */
  readonly queues: readonly LiveQueue[];
  readonly nodes: readonly {
    readonly id: string;
    readonly state: 'alive' | 'draining' | 'left' | 'lost';
    readonly overdue: boolean;
    readonly slots: number;
    readonly leases: number;
  }[];
  readonly warnings: readonly Warning[];
}

/**
 * Events of GET /api/live, by the name of the event; `data` is JSON of what stands here. Ids grow; a client that comes back with
 * `Last-Event-ID` (EventSource does so by itself) gets what it missed, as far back as two minutes, and in any case the newest
 * snapshot. A comment line every 15 s is the heartbeat.
 */
export type LiveEvent =
  | { readonly event: 'snapshot'; readonly data: LiveSnapshot }
  | {
      /** A bulk action began, went on, or ended. */
      readonly event: 'bulk';
      readonly data: BulkRun;
    }
  | {
      /** Somebody did something here: a page that shows it may read itself anew. */
      readonly event: 'changed';
      readonly data: { readonly action: string; readonly target: string | null; readonly at: Time };
    }
  | {
      /** The database does not answer; snapshots go on when it does again. */
      readonly event: 'trouble';
      readonly data: { readonly message: string };
    };
