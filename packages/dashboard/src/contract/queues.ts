import type { Rate, Time } from './common.ts';
import type { Depths } from './overview.ts';

/** Settings of a queue that can be changed in place. Limits count from the scheduler's next tick on; null: none. */
export interface QueueSettings {
  /** No more of its jobs are scheduled; those that are ready or running go on. */
  readonly paused: boolean;
  /** The group of nodes that serves it. */
  readonly pool: string;
  /** How long its history is kept; 0 keeps none. */
  readonly retentionMs: number;
  /** Jobs of the queue in flight (ready or running) at most; 0: none may start. */
  readonly concurrency: number | null;
  /** The same for each of its keys. */
  readonly keyConcurrency: number | null;
  readonly rate: Rate | null;
  readonly keyRate: Rate | null;
  /** Jobs of one key that may wait or run: an enqueue that would leave more is refused. 1 to 100,000. */
  readonly keyPending: number | null;
  /** Its share beside other queues. Above 0. */
  readonly weight: number;
}

/** One queue, with what it does now. */
export interface QueueRow {
  readonly queue: string;
  readonly settings: QueueSettings;
  /** Whether anything was ever set for it. */
  readonly configured: boolean;
  /** When it was set last; null: never. */
  readonly updated: Time | null;
  readonly now: Depths;
  readonly held: Readonly<Record<string, number>> | null;
}

/** Answer to GET /api/queues: by name, 500 at most. */
export interface Queues {
  readonly at: Time;
  readonly queues: readonly QueueRow[];
  readonly more: boolean;
}
