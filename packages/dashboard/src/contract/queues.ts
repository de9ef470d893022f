import type { Rate, Time } from './api.ts';
import type { Depths } from './overview.ts';

/** Settings of a queue. Limits apply from the scheduler's next tick; null: no limit. */
export interface QueueSettings {
  /** Stops dispatch of its jobs; ready and running ones continue. */
  readonly paused: boolean;
  /** Group of nodes that serves the queue. */
  readonly pool: string;
  /** Retention of its history; 0 keeps none. */
  readonly retentionMs: number;
  /** Limit of jobs in flight (ready or running); 0: none may start. */
  readonly concurrency: number | null;
  /** The same limit for each key. */
  readonly keyConcurrency: number | null;
  readonly rate: Rate | null;
  readonly keyRate: Rate | null;
  /** Limit of unfinished jobs for each key, 1 to 100,000; an enqueue that would exceed it is refused. */
  readonly keyPending: number | null;
  /** Share relative to other queues, above 0. */
  readonly weight: number;
}

/** A queue with its settings and present state. */
export interface QueueRow {
  readonly queue: string;
  readonly settings: QueueSettings;
  /** Settings were made for it. */
  readonly configured: boolean;
  /** Time of the last change of its settings; null: never. */
  readonly updated: Time | null;
  readonly now: Depths;
  readonly held: Readonly<Record<string, number>> | null;
}

/** Answer to GET /api/queues: up to 500 queues, by name. */
export interface Queues {
  readonly at: Time;
  readonly queues: readonly QueueRow[];
  readonly more: boolean;
}
