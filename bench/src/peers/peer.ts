import type { BenchJob, Payload } from '../load.ts';

/** Storage for a peer's jobs. */
export interface Place {
  /** URL of a database that nothing else uses. */
  readonly databaseUrl: string;
  /** URL of a Redis that nothing else uses; only for peers that need one. */
  readonly redisUrl: string | undefined;
}

/** A named configuration of a peer. */
export interface Setting {
  readonly name: string;
  /** Text for the report: every option set, in the peer's own terms. */
  readonly says: string;
  /** Works the setting is measured in; default: all. */
  readonly works?: readonly string[];
  /** Configuration of the peer's README. It is measured with fewer jobs, since it may be slow by design. */
  readonly readme?: true;
  /**
   * Fraction of the jobs to run, for settings that would take minutes otherwise. Default: all of them, or a
   * tenth for a README setting.
   */
  readonly share?: number;
  /** Jobs a second the setting can run by design, where that is few. */
  readonly perSecond?: number;
}

/** Requirements of a work, in addition to the setting. */
export interface Wish {
  readonly setting: string;
  /** Concurrent handlers; default: as the setting says. */
  readonly concurrency?: number;
  /** Use the peer's own means to keep the jobs of one key from holding up those of another. */
  readonly ownKeys?: true;
  /** Use the peer's own means to start jobs quickly, even at the cost of throughput. */
  readonly quick?: true;
  /** Wake up by polling only. */
  readonly polling?: true;
}

export interface Stoppable {
  readonly stop: () => Promise<void>;
}

/** Runs one job. A job whose handler returns undefined has ended. */
export type Handle = (payload: Payload) => Promise<void> | undefined;

/** Callbacks of a worker. */
export interface Runner {
  readonly handle: Handle;
  /** Called with the duration of each claim, in milliseconds, by peers that can tell. */
  readonly claimed: (ms: number) => void;
}

export interface BenchProducer {
  /** Enqueues one job by the call that an application uses for one job. */
  readonly one: (job: BenchJob) => Promise<void>;
  /** Enqueues several jobs by the peer's bulk call. */
  readonly many: (jobs: readonly BenchJob[]) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Starts flows: jobs that wait for other jobs. */
export interface FlowStarter {
  /**
   * Starts one flow by the peer's own call. Each step waits for all jobs of the one before. Every step but the
   * first has one job: some peers have trees only.
   */
  readonly start: (steps: readonly (readonly BenchJob[])[]) => Promise<void>;
  readonly close: () => Promise<void>;
}

/**
 * A job queue under test, run the way its users run it. Everything but `install` and `remains` runs in
 * separate processes.
 */
export interface Peer {
  readonly name: string;
  readonly store: 'postgres' | 'redis';
  /** npm package, for its version; undefined: implemented in this package. */
  readonly packageName: string | undefined;
  readonly settings: readonly Setting[];
  /** Creates the schema in an empty place. */
  readonly install: (place: Place, setting: string) => Promise<void>;
  /** Reports whether any unfinished job is left. */
  readonly remains: (place: Place) => Promise<boolean>;
  readonly startWorker: (place: Place, wish: Wish, runner: Runner) => Promise<Stoppable>;
  /** Starts the process that runs alongside the workers, if the peer has one. */
  readonly startScheduler?: (place: Place, wish: Wish) => Promise<Stoppable>;
  /** `calls`: concurrent calls, at most. The pool gets one more connection, for the peer's own queries. */
  readonly openProducer: (
    place: Place,
    wish: Wish,
    options: { readonly calls: number },
  ) => Promise<BenchProducer>;
  /** As `openProducer`; undefined: the peer has no flows. */
  readonly openFlowStarter?: (
    place: Place,
    wish: Wish,
    options: { readonly calls: number },
  ) => Promise<FlowStarter>;
}
