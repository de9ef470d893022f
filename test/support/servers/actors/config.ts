/** Options that the test passes to its processes. */
export interface SystemConfig {
  /** Folder in which witnesses and producers write their lines. */
  readonly folder: string;
  /** Producers: jobs a second. */
  readonly perSecond: number;
  /** Schedulers: share by time, which keeps state and needs the feed of ended attempts. */
  readonly charge: boolean;
  /** False behind PgBouncer. */
  readonly listen: boolean;
  readonly schedulerLeaseMs: number;
  readonly heartbeatMs: number;
  readonly lostAfterMs: number;
}

/**
 * A producer's line: a job whose enqueue was acknowledged. `askedMs`: the time of the first attempt to
 * enqueue it.
 */
export interface Acknowledged {
  readonly id: string;
  readonly askedMs: number;
  readonly atMs: number;
}

/** A handler's line: it began, or ended. */
export interface Witnessed {
  readonly what: 'start' | 'end';
  readonly id: string;
  readonly task: string;
  readonly node: string;
  readonly atMs: number;
}
