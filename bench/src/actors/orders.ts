// Messages between the bench and the processes it starts.
import type { Place, Wish } from '../peers/peer.ts';

export type Role = 'worker' | 'scheduler' | 'producer';

/** Start arguments of a process. */
export interface Hiring {
  readonly role: Role;
  readonly peer: string;
  readonly place: Place;
}

/** Work of the handlers: return at once, or sleep. */
export type Handling = { readonly kind: 'nothing' } | { readonly kind: 'sleep'; readonly ms: number };

/** Time recorded for each job: none, how long it waited, or when it ended. */
export type Remembering = 'nothing' | 'waited' | 'ended';

/** Starts a worker that counts the jobs 0 to `capacity - 1`. */
export interface WorkOrder {
  readonly kind: 'work';
  readonly wish: Wish;
  readonly handling: Handling;
  readonly remember: Remembering;
  readonly capacity: number;
  /** First of the jobs that are counted separately as well, in {@link Progress.watched}. */
  readonly watchFrom?: number;
  /** Counts only the last of each this many of those jobs: the last job of a flow with this many jobs. Default 1. */
  readonly watchEvery?: number;
  /** No jobs will come: progress is sent every 5 s only. */
  readonly idle?: boolean;
}

/**
 * Numbers of jobs in the steps of a flow, in order; each step waits for the one before. With it, a call starts
 * one flow, whose jobs are a batch. Default: jobs without a flow.
 */
export type FlowSteps = readonly number[];

export interface EnqueueOrder {
  readonly kind: 'enqueue';
  readonly wish: Wish;
  readonly from: number;
  readonly count: number;
  /** Jobs a call; 1: uses the call for a single job. */
  readonly batch: number;
  /** Concurrent calls, each on its own connection. */
  readonly connections: number;
  readonly keys?: number;
  /** One key for all jobs. */
  readonly key?: string;
  readonly steps?: FlowSteps;
  /** No call starts later than this, in seconds. */
  readonly seconds?: number;
}

/** Enqueues until stopped. */
export interface FeedOrder {
  readonly kind: 'feed';
  readonly wish: Wish;
  /** Number of the first job. */
  readonly from: number;
  readonly batch: number;
  readonly connections: number;
  readonly steps?: FlowSteps;
  /** Jobs the producer may be ahead of the workers, at most. */
  readonly leadMax: number;
  /** Jobs a second, at random times, so that arrivals never fall into step with a poll. Default: no limit. */
  readonly perSecond?: number;
  /** Number of the last job plus one. */
  readonly to: number;
}

export type Order =
  | WorkOrder
  | EnqueueOrder
  | FeedOrder
  | { readonly kind: 'schedule'; readonly wish: Wish }
  /** Tells the producer how many jobs the workers have run. */
  | { readonly kind: 'run'; readonly jobs: number }
  | { readonly kind: 'stop' };

/**
 * Result of a stopped worker. `firstAt`: when its first job began, in microseconds since 1970; 0 if none ran.
 */
export interface Worked {
  readonly kind: 'worked';
  readonly runs: number;
  readonly firstAt: number;
  /** File with one bit for each job, set if it ran. */
  readonly seen: string;
  /**
   * File with two doubles for each claim: when it ended, in microseconds since 1970, and its duration in
   * milliseconds.
   */
  readonly claims: string;
  /** File with one double for each job, in microseconds; undefined if nothing was to be remembered. */
  readonly remembered: string | undefined;
}

export interface Enqueued {
  readonly kind: 'enqueued';
  readonly jobs: number;
  readonly seconds: number;
}

export interface Started {
  readonly kind: 'started';
  /** Duration of the start, in milliseconds. */
  readonly ms: number;
}

export type Answer = Worked | Enqueued | Started | { readonly kind: 'heard' };

/** Sent unasked: up to every 10 ms while something is counted and has changed, and every 5 s otherwise. */
export interface Progress {
  readonly runs: number;
  readonly enqueued: number;
  /** Ended jobs among those counted separately (`watchFrom`). */
  readonly watched: number;
  readonly rss: number;
  readonly heap: number;
}

export type Said =
  | { readonly id: number; readonly answer: Answer }
  | { readonly id: number; readonly error: string }
  | { readonly progress: Progress };
