import type { Count, Quantiles, Time, Window } from './api.ts';
import type { FlowCounts } from './flows.ts';

/** Query of GET /api/overview. */
export interface OverviewQuery {
  /** Default `hour`. */
  readonly window?: Window;
  /** Limits the answer to one queue. */
  readonly queue?: string;
}

/** Present state of the jobs of one queue or of all. */
export interface Depths {
  readonly delayed: Count;
  readonly pending: Count;
  readonly ready: Count;
  readonly running: Count;
  readonly dead: Count;
  /** Age of the oldest job that could run and does not. */
  readonly oldestMs: number | null;
  /** Age of the oldest lease. */
  readonly claimAgeMs: number | null;
  /** Failed attempts as a share (0 to 1) of all attempts of jobs that ended in the last 5 minutes. */
  readonly retryRate: number | null;
}

/** Jobs that ended within the window. */
export interface Ended {
  readonly done: number;
  readonly dead: number;
  readonly cancelled: number;
  readonly expired: number;
  /** Attempts that ran to an error, of jobs that ended. */
  readonly failures: number;
  /** From the enqueue to the start of the last attempt; a requested delay counts. */
  readonly waits: Quantiles;
  /** From the start of the last attempt to its end. */
  readonly runs: Quantiles;
  /** Sum over all last attempts. */
  readonly busyMs: number;
}

/** One queue. */
export interface QueueOverview {
  readonly queue: string;
  readonly paused: boolean;
  readonly pool: string;
  readonly now: Depths;
  readonly ended: Ended;
  /** Held jobs of the leader's last snapshot, by rule; null: no leader reports. */
  readonly held: Readonly<Record<string, number>> | null;
}

/** One bar of the charts: jobs that ended within {@link Overview.stepMs} from `at` on. */
export interface Bucket {
  readonly at: Time;
  readonly done: number;
  readonly failures: number;
  readonly dead: number;
  readonly waitP50Ms: number | null;
  readonly waitP95Ms: number | null;
  readonly waitP99Ms: number | null;
  /** Worker time of the last attempts that ended in the bucket. */
  readonly busyMs: number;
}

/** Use of the workers. */
export interface WorkerUse {
  readonly nodes: number;
  /** Slots of live nodes. */
  readonly slots: number;
  /** Slots of alive nodes that run something. */
  readonly slotsInUse: number;
  /** Leases of all nodes, also of those that drain, and of batches that are claimed ahead. */
  readonly leases: number;
  /** `slotsInUse` / `slots`, 0 to 1; null: there are no slots. */
  readonly use: number | null;
}

/** A condition that keeps jobs from running, or the database from being vacuumed. */
export interface Warning {
  readonly kind:
    | 'read_only'
    | 'no_leader'
    | 'silent_leader'
    | 'no_capable_node'
    | 'old_snapshot'
    | 'hung_handlers'
    | 'policy_fault'
    | 'policies_differ'
    | 'unreadable'
    | 'behind';
  /** Text without markup; it may contain names that users chose. */
  readonly message: string;
}

/** Answer to GET /api/overview. */
export interface Overview {
  /** Time by the database's clock. */
  readonly at: Time;
  readonly window: Window;
  /** Begin of the first bucket. */
  readonly from: Time;
  readonly stepMs: number;
  /**
   * Time up to which ended jobs are counted in buckets; the leading scheduler counts every few seconds. Null:
   * never counted (no scheduler, or only an older one, has led).
   */
  readonly countedTo: Time | null;
  readonly now: Depths;
  readonly ended: Ended;
  readonly workers: WorkerUse;
  readonly flows: FlowCounts;
  /** Oldest first, without gaps; the last one is incomplete. */
  readonly buckets: readonly Bucket[];
  /** The 100 busiest queues, busiest first. */
  readonly queues: readonly QueueOverview[];
  /** Further queues exist that are not shown. */
  readonly moreQueues: boolean;
  readonly warnings: readonly Warning[];
}
