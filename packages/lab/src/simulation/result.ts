import type { FaultCount } from './planning.ts';
import type { Spread } from './quantiles.ts';

/** Counts of jobs, by what became of them. */
export interface JobCounts {
  readonly arrived: number;
  readonly done: number;
  /** Jobs that ran out of tries or crashes. */
  readonly dead: number;
  /** Jobs that were not started in time. */
  readonly expired: number;
  /**
   * Jobs that waited, were delayed or ran when nothing could happen any more, or when the simulation was
   * ended.
   */
  readonly unfinished: number;
  /** Attempts that failed and were tried again. */
  readonly retries: number;
  readonly crashes: number;
}

/** Jobs with a deadline. */
export interface Deadlines {
  readonly set: number;
  /**
   * Jobs that were done or dead after their deadline, expired, or were unfinished when their time was over.
   */
  readonly missed: number;
  /** Delays past the deadline, of jobs that ended. */
  readonly late: Spread;
}

/** Result of a queue's key. */
export interface LaneResult {
  readonly queue: string;
  readonly key: string;
  readonly jobs: JobCounts;
  /** Waits from arrival to first start. */
  readonly waits: Spread;
  readonly deadlines: Deadlines;
  readonly firstMs: number;
  /** Time at which its last attempt ended. Null: no attempt ended. */
  readonly lastMs: number | null;
  /** Slot time of its attempts, failed ones included. */
  readonly busyMs: number;
  /** Share of all slot time in use. */
  readonly share: number;
  /** Weight beside the other keys of its queue. */
  readonly weight: number;
  /** Slot time from plans that left the key and others with waiting jobs. */
  readonly served: ServedTime;
  readonly inFlightMax: number;
  readonly waitingMax: number;
}

/**
 * Slot time that a key was given, and the time it was entitled to.
 *
 * Both count only plans that left the key and others with waiting jobs that no gate held. The key is entitled
 * to its part, by weight, of all that such plans gave to such keys.
 */
export interface ServedTime {
  readonly servedMs: number;
  readonly entitledMs: number;
  /**
   * served / entitled. Null: too little to tell, which is less than ten average jobs for each time the key
   * waits.
   */
  readonly ratio: number | null;
}

/** Result of a queue, over all its keys. */
export interface QueueResult {
  readonly queue: string;
  readonly jobs: JobCounts;
  readonly waits: Spread;
  readonly deadlines: Deadlines;
  readonly busyMs: number;
  readonly share: number;
  readonly weight: number;
  readonly inFlightMax: number;
  readonly waitingMax: number;
}

/** Use of a limit of queue_config. */
export interface LimitUse {
  readonly queue: string;
  readonly kind: 'concurrency' | 'keyConcurrency' | 'rate' | 'keyRate';
  /** Jobs in flight, or jobs a second. */
  readonly limit: number;
  /** Mean over the time in which a job waited. For keys: over all keys. Null: no job ever waited. */
  readonly mean: number | null;
  /** mean / limit. A burst can bring a rate above 1. */
  readonly use: number | null;
  /** Most jobs in flight at once. For keys: of any one key. Null for rates. */
  readonly max: number | null;
}

/**
 * Jobs that a reason held. Counted are the jobs that policies looked at, which are the first few of every
 * key, and all jobs that are alike to the gates which hold those.
 */
export interface HeldResult {
  readonly queue: string;
  /** Name of a gate, or `no_free_slot`, `no_capable_node`, `batch_full`. */
  readonly reason: string;
  /** Mean over the whole time. */
  readonly meanJobs: number;
  readonly maxJobs: number;
  /** Plans in which the reason held jobs. */
  readonly plans: number;
}

/** Result of the flows of one name. */
export interface FlowResult {
  readonly flow: string;
  readonly flows: {
    readonly arrived: number;
    readonly done: number;
    /** Flows with a dead job that no step takes as an end like any other. */
    readonly failed: number;
    readonly unfinished: number;
  };
  /** Times from start to end, of flows that are done. */
  readonly makespans: Spread;
}

/** Mean numbers of jobs in each step of time. */
export interface TimeSeries {
  readonly startMs: number;
  readonly stepMs: number;
  readonly running: readonly number[];
  readonly waiting: readonly number[];
  /** Running jobs of the keys that used most slot time. `running` minus these is the rest. */
  readonly lanes: readonly {
    readonly queue: string;
    readonly key: string;
    readonly running: readonly number[];
  }[];
}

/** Result of a simulation. Plain JSON, the same for the same options. */
export interface Simulation {
  readonly policy: string;
  readonly seed: number;
  /** Time of the first arrival. `endMs`: the time from which nothing happened any more, or the given end. */
  readonly startMs: number;
  readonly endMs: number;
  readonly slots: number;
  readonly jobs: JobCounts;
  readonly waits: Spread;
  /** Waits that 0, 1, …, 100 % of the jobs do not exceed. Empty if no job was started. */
  readonly waitPercentilesMs: readonly number[];
  /**
   * Share of the slot time from start to end that was in use. `busyWhileWaiting`: the same over the time in
   * which a job waited.
   */
  readonly utilisation: number;
  readonly busyWhileWaiting: number | null;
  /**
   * Jain's index over the keys' served / entitled. 1 is perfectly fair. Null: fewer than two keys have a
   * ratio.
   */
  readonly jain: number | null;
  /** Time in which two or more keys had waiting jobs that no gate held, in milliseconds. */
  readonly contendedMs: number;
  readonly deadlines: Deadlines;
  readonly queues: readonly QueueResult[];
  /** Keys, sorted by slot time, the largest first. */
  readonly lanes: readonly LaneResult[];
  /** Flows, sorted by name. `makespans`: times from start to end, of all flows that are done. */
  readonly flows: readonly FlowResult[];
  readonly makespans: Spread;
  readonly limits: readonly LimitUse[];
  readonly held: readonly HeldResult[];
  /** Highest value of each forecast that the order made. */
  readonly forecast: Readonly<Record<string, number>>;
  readonly plans: { readonly made: number; readonly empty: number; readonly recalled: number };
  readonly faults: readonly FaultCount[];
  readonly series: TimeSeries;
}
