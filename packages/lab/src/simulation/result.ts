import type { FaultCount } from './planning.ts';
import type { Spread } from './quantiles.ts';

/** What became of jobs. */
export interface JobCounts {
  readonly arrived: number;
  readonly done: number;
  /** Out of tries, or of crashes. */
  readonly dead: number;
  /** Not started in time. */
  readonly expired: number;
  /** Left waiting, delayed or running when nothing could happen any more, or when the simulation was ended. */
  readonly unfinished: number;
  /** Attempts that failed and were tried again. */
  readonly retries: number;
  readonly crashes: number;
}

/** Jobs that should have been done by some time. */
export interface Deadlines {
  readonly set: number;
  /** Done later, dead later, expired, or unfinished at the end with their time over. */
  readonly missed: number;
  /** By how much, where they ended at last. */
  readonly late: Spread;
}

/** A queue's key. */
export interface LaneResult {
  readonly queue: string;
  readonly key: string;
  readonly jobs: JobCounts;
  /** From arrival to first start. */
  readonly waits: Spread;
  readonly deadlines: Deadlines;
  readonly firstMs: number;
  /** When its last attempt ended; null: none did. */
  readonly lastMs: number | null;
  /** Slot time of its attempts, failed ones included. */
  readonly busyMs: number;
  /** Of all slot time in use. */
  readonly share: number;
  /** Beside the other keys of its queue. */
  readonly weight: number;
  /** In plans that left it, and others, with jobs waiting. */
  readonly served: ServedTime;
  readonly inFlightMax: number;
  readonly waitingMax: number;
}

/**
 * What plans gave to a key, as slot time, that left it and others with jobs waiting that no gate held; and what it was entitled to by
 * weight of all that such plans gave to such keys.
 */
export interface ServedTime {
  readonly servedMs: number;
  readonly entitledMs: number;
  /** served / entitled; null: too little to tell (less than ten average jobs each time it waits). */
  readonly ratio: number | null;
}

/** One queue, all its keys. */
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

/** How much of a limit of queue_config was used. */
export interface LimitUse {
  readonly queue: string;
  readonly kind: 'concurrency' | 'keyConcurrency' | 'rate' | 'keyRate';
  /** Jobs in flight, or jobs a second. */
  readonly limit: number;
  /** Mean over the time in which something waited; of keys, over all of them. Null: nothing ever did. */
  readonly mean: number | null;
  /** mean / limit. A burst can bring a rate above 1. */
  readonly use: number | null;
  /** Most jobs in flight at once; of keys, of any one. Null for rates. */
  readonly max: number | null;
}

/** Jobs held, of those that policies looked at, the first few of every key, and of all that are alike to the gates that hold those. */
export interface HeldResult {
  readonly queue: string;
  /** The name of a gate, or `no_free_slot`, `no_capable_node`, `batch_full`. */
  readonly reason: string;
  /** On average over the whole time. */
  readonly meanJobs: number;
  readonly maxJobs: number;
  /** Plans that held something for it. */
  readonly plans: number;
}

/** Mean numbers of jobs in each step of time. */
export interface TimeSeries {
  readonly startMs: number;
  readonly stepMs: number;
  readonly running: readonly number[];
  readonly waiting: readonly number[];
  /** Running jobs of the keys that used most slot time; the rest is `running` without them. */
  readonly lanes: readonly {
    readonly queue: string;
    readonly key: string;
    readonly running: readonly number[];
  }[];
}

/** What came of a simulation: plain JSON, the same for the same options. */
export interface Simulation {
  readonly policy: string;
  readonly seed: number;
  /** The first arrival, and when nothing happened any more. */
  readonly startMs: number;
  readonly endMs: number;
  readonly slots: number;
  readonly jobs: JobCounts;
  readonly waits: Spread;
  /** The waits of which 0, 1, …, 100 % are no longer; empty where nothing was started. */
  readonly waitPercentilesMs: readonly number[];
  /** Of all slot time from start to end, what was in use; and of that in which something waited. */
  readonly utilisation: number;
  readonly busyWhileWaiting: number | null;
  /** Jain's index over the keys' served / entitled: 1 is perfectly fair. Null: fewer than two can be told. */
  readonly jain: number | null;
  /** The time in which two or more keys had jobs waiting that no gate held. */
  readonly contendedMs: number;
  readonly deadlines: Deadlines;
  readonly queues: readonly QueueResult[];
  /** By slot time, most first. */
  readonly lanes: readonly LaneResult[];
  readonly limits: readonly LimitUse[];
  readonly held: readonly HeldResult[];
  /** The highest value of each forecast that the order made. */
  readonly forecast: Readonly<Record<string, number>>;
  readonly plans: { readonly made: number; readonly empty: number; readonly recalled: number };
  readonly faults: readonly FaultCount[];
  readonly series: TimeSeries;
}
