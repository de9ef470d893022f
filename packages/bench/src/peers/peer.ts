import type { BenchJob, Payload } from '../load.ts';

/** Where a peer keeps its jobs. */
export interface Place {
  /** Of a database that nothing else uses. */
  readonly databaseUrl: string;
  /** Of a Redis that nothing else uses, for the peers that need one. */
  readonly redisUrl: string | undefined;
}

/** A way to set a peer up, by name. */
export interface Setting {
  readonly name: string;
  /** For the report: every option that is given, in the peer's own words. */
  readonly says: string;
  /** The works that it says something in; default all. */
  readonly works?: readonly string[];
  /** As its README has it: measured with fewer jobs, for it may be slow by design. */
  readonly readme?: true;
  /** The part of the jobs that it gets where it would take minutes otherwise; default all of them, a README's setting a tenth. */
  readonly share?: number;
  /** Jobs a second that it can run by design, where they are few. */
  readonly perSecond?: number;
}

/** What a work asks of a peer, beside its setting. */
export interface Wish {
  readonly setting: string;
  /** Handlers at a time, where the work says so; otherwise what the setting says. */
  readonly concurrency?: number;
  /** Use what the peer has to keep the jobs of one key from holding up those of another. */
  readonly ownKeys?: true;
  /** With what the peer has to begin a job soon, even where that costs throughput. */
  readonly quick?: true;
  /** Woken up by polling only. */
  readonly polling?: true;
}

export interface Stoppable {
  readonly stop: () => Promise<void>;
}

/** Runs one job. What returns no promise is over at once. */
export type Handle = (payload: Payload) => Promise<void> | undefined;

/** What a worker does with its jobs, and tells. */
export interface Runner {
  readonly handle: Handle;
  /** A claim has taken so many milliseconds; for peers that know. */
  readonly claimed: (ms: number) => void;
}

export interface BenchProducer {
  /** One job, by the call that an application uses for one. */
  readonly one: (job: BenchJob) => Promise<void>;
  /** Many, by the peer's own bulk call. */
  readonly many: (jobs: readonly BenchJob[]) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** One way to queue jobs, as its users run it. Everything but `install` and `remains` runs in processes of its own. */
export interface Peer {
  readonly name: string;
  readonly store: 'postgres' | 'redis';
  /** The npm package that it is, for its version; none: written here. */
  readonly packageName: string | undefined;
  readonly settings: readonly Setting[];
  /** Makes what it needs in an empty place. */
  readonly install: (place: Place, setting: string) => Promise<void>;
  /** Whether any job is left that has not ended. */
  readonly remains: (place: Place) => Promise<boolean>;
  readonly startWorker: (place: Place, wish: Wish, runner: Runner) => Promise<Stoppable>;
  /** The process beside the workers, where there is one. */
  readonly startScheduler?: (place: Place, wish: Wish) => Promise<Stoppable>;
  /** `calls`: how many come at a time, at most. Its pool has a connection more, for what it does beside them. */
  readonly openProducer: (
    place: Place,
    wish: Wish,
    options: { readonly calls: number },
  ) => Promise<BenchProducer>;
}
