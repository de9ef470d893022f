import type { Count, Quantiles, Time, Window } from './common.ts';

/** Query of GET /api/overview. */
export interface OverviewQuery {
  /** Default `hour`. */
  readonly window?: Window;
  /** One queue only. */
  readonly queue?: string;
}

/** What jobs do now, of one queue or of all. */
export interface Depths {
  readonly delayed: Count;
  readonly pending: Count;
  readonly ready: Count;
  readonly running: Count;
  readonly dead: Count;
  /** Age of the oldest job that could run and doesn't. */
  readonly oldestMs: number | null;
  /** How long the oldest lease has been held. */
  readonly claimAgeMs: number | null;
  /** Failed attempts as a share (0 to 1) of the attempts of jobs that ended in the last five minutes. */
  readonly retryRate: number | null;
}

/** What ended within the window. */
export interface Ended {
  readonly done: number;
  readonly dead: number;
  readonly cancelled: number;
  readonly expired: number;
  /** Attempts that ran to an error, of jobs that ended. */
  readonly failures: number;
  /** From being enqueued to the start of the last attempt; a delay that was asked for counts. */
  readonly waits: Quantiles;
  /** From the start of the last attempt to its end. */
  readonly runs: Quantiles;
  /** Of last attempts, all together. */
  readonly busyMs: number;
}

/** One queue. */
export interface QueueOverview {
  readonly queue: string;
  readonly paused: boolean;
  readonly pool: string;
  readonly now: Depths;
  readonly ended: Ended;
  /** Held jobs of the leader's last snapshot, by rule; null: no leader says. */
  readonly held: Readonly<Record<string, number>> | null;
}

/** One bar of the charts: what ended from `at` on, for {@link Overview.stepMs}. */
export interface Bucket {
  readonly at: Time;
  readonly done: number;
  readonly failures: number;
  readonly dead: number;
  readonly waitP50Ms: number | null;
  readonly waitP95Ms: number | null;
  readonly waitP99Ms: number | null;
  /** Worker time: of last attempts that ended in it. */
  readonly busyMs: number;
}

/** How workers are used. */
export interface WorkerUse {
  readonly nodes: number;
  /** Of nodes that are alive. */
  readonly slots: number;
  readonly leases: number;
  /** `leases` / `slots`, 0 to 1; null: there are no slots. */
  readonly use: number | null;
}

/** Something that keeps jobs from running, or the database from being cleaned up. */
export interface Warning {
  readonly kind:
    | 'no_leader'
    | 'silent_leader'
    | 'no_capable_node'
    | 'old_snapshot'
    | 'policy_fault'
    | 'unreadable'
    | 'behind';
  /** In words; may hold names that users chose: text, no markup. */
  readonly message: string;
}

/** Answer to GET /api/overview. */
export interface Overview {
  /** The database's clock. */
  readonly at: Time;
  readonly window: Window;
  /** The first bucket begins here. */
  readonly from: Time;
  readonly stepMs: number;
  /**
   * Up to when ended jobs are counted in buckets: a leading scheduler does so every few seconds. Null: never yet (an older one
   * leads, or none did).
   */
  readonly countedTo: Time | null;
  readonly now: Depths;
  readonly ended: Ended;
  readonly workers: WorkerUse;
  /** Oldest first, without gaps; the last one is still filling. */
  readonly buckets: readonly Bucket[];
  /** The busiest first, 100 at most. */
  readonly queues: readonly QueueOverview[];
  /** There are more queues than are shown. */
  readonly moreQueues: boolean;
  readonly warnings: readonly Warning[];
}
