import type { Count, Time } from './api.ts';
import type { BulkRun } from './bulk.ts';
import type { FlowCounts } from './flows.ts';
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

/** State of the whole installation, read once for all clients, by default every 2.5 s. */
export interface LiveSnapshot {
  /** Time by the clock of the dashboard's process. */
  readonly at: Time;
  readonly leader: { readonly name: string | null; readonly epoch: number };
  readonly workers: WorkerUse;
  /** Jobs done a second, over the last 5 minutes. */
  readonly donePerSecond: number;
  /** Sums over all queues. */
  readonly totals: Omit<LiveQueue, 'queue' | 'paused'>;
  readonly flows: FlowCounts;
  /** The first 100 queues, by name. */
  readonly queues: readonly LiveQueue[];
  /** The first 200 nodes, live ones first. */
  readonly nodes: readonly {
    readonly id: string;
    readonly state: 'alive' | 'draining' | 'left' | 'lost';
    readonly overdue: boolean;
    readonly slots: number;
    readonly slotsInUse: number;
    readonly leases: number;
  }[];
  readonly warnings: readonly Warning[];
}

/**
 * Events of GET /api/live by name; `data` is JSON. Ids increase. A client that reconnects with
 * `Last-Event-ID`, as EventSource does, receives the events it missed in the last two minutes, or else the
 * newest snapshot of that time. A comment line every 15 s is the heartbeat.
 */
export type LiveEvent =
  | { readonly event: 'snapshot'; readonly data: LiveSnapshot }
  | {
      /** A bulk action began, progressed or ended. */
      readonly event: 'bulk';
      readonly data: BulkRun;
    }
  | {
      /** A user of the dashboard changed something; pages that show it may refresh. */
      readonly event: 'changed';
      readonly data: { readonly action: string; readonly target: string | null; readonly at: Time };
    }
  | {
      /** The database does not answer; snapshots continue when it does again. */
      readonly event: 'trouble';
      readonly data: { readonly message: string };
    };
