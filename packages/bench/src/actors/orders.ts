// What the bench and the processes that it starts say to each other.
import type { Place, Wish } from '../peers/peer.ts';

export type Role = 'worker' | 'scheduler' | 'producer';

/** What a process is told when it is started. */
export interface Hiring {
  readonly role: Role;
  readonly peer: string;
  readonly place: Place;
}

/** How a worker's handlers spend their time. */
export type Handling = { readonly kind: 'nothing' } | { readonly kind: 'sleep'; readonly ms: number };

/** What a worker remembers of each job, beside that it ran. */
export type Remembering = 'nothing' | 'waited' | 'ended';

/** Starts a worker. It counts what it runs, from job 0 to `capacity - 1`. */
export interface WorkOrder {
  readonly kind: 'work';
  readonly wish: Wish;
  readonly handling: Handling;
  readonly remember: Remembering;
  readonly capacity: number;
  /** Jobs from this number on are counted apart. */
  readonly watchFrom?: number;
  /** No jobs are to come. */
  readonly idle?: boolean;
}

export interface EnqueueOrder {
  readonly kind: 'enqueue';
  readonly wish: Wish;
  readonly from: number;
  readonly count: number;
  /** Jobs in a call; 1: by the call for one job. */
  readonly batch: number;
  /** Calls at a time, each on a connection. */
  readonly connections: number;
  readonly keys?: number;
  /** One for all of them. */
  readonly key?: string;
  /** No call begins later than so. */
  readonly seconds?: number;
}

/** Enqueues until it is stopped. */
export interface FeedOrder {
  readonly kind: 'feed';
  readonly wish: Wish;
  /** The number of its first job. */
  readonly from: number;
  readonly batch: number;
  readonly connections: number;
  /** Jobs that it may be ahead of the workers at most. */
  readonly leadMax: number;
  /** Jobs a second, at random times: never two systems in step. Default: as many as it can. */
  readonly perSecond?: number;
  /** The number of its last job, and one. */
  readonly to: number;
}

export type Order =
  | WorkOrder
  | EnqueueOrder
  | FeedOrder
  | { readonly kind: 'schedule'; readonly wish: Wish }
  /** How many jobs the workers have run, for who feeds them. */
  | { readonly kind: 'run'; readonly jobs: number }
  | { readonly kind: 'stop' };

/** What a worker has done, when it has stopped. `firstAt`: when its first job began, in microseconds since 1970; 0: none has. */
export interface Worked {
  readonly kind: 'worked';
  readonly runs: number;
  /** Jobs that began after a later one of their key. */
  readonly firstAt: number;
  /** A file with a bit for each job that ran. */
  readonly seen: string;
  /** A file with two doubles for each claim: when it ended, in microseconds since 1970, and its milliseconds. */
  readonly claims: string;
  /** A file with a double for each job, where it was told to remember something: microseconds. */
  readonly remembered: string | undefined;
}

export interface Enqueued {
  readonly kind: 'enqueued';
  readonly jobs: number;
  readonly seconds: number;
}

export interface Started {
  readonly kind: 'started';
  /** How long the start took. */
  readonly ms: number;
}

export type Answer = Worked | Enqueued | Started | { readonly kind: 'heard' };

/** Sent unasked, a hundred times a second where something has changed, and once a second in any case. */
export interface Progress {
  readonly runs: number;
  readonly enqueued: number;
  /** Of the jobs that are counted apart, those that have ended. */
  readonly watched: number;
  readonly rss: number;
  readonly heap: number;
}

export type Said =
  | { readonly id: number; readonly answer: Answer }
  | { readonly id: number; readonly error: string }
  | { readonly progress: Progress };
