// Faults of a running system. Faults are values: the nemesis chooses among their makers by its seed.

/** One fault, made once. */
export interface Fault {
  /**
   * Name in the fault matrix, in kebab case: `worker-kill`, `postgres-immediate`. Recovery times are reported
   * by it.
   */
  readonly kind: string;
  /** Name of the process that the fault hits, if it hits a single one. */
  readonly target?: string;
  /**
   * Makes the fault; resolves when it has begun. Throws if it can't be made: then `heal` is called too, and
   * the fault is not counted.
   */
  readonly start: () => Promise<void> | void;
  /**
   * Ends the fault; resolves when processes run and the server accepts connections again. The maker bounds
   * its time, so it never hangs.
   */
  readonly heal: () => Promise<void> | void;
}

/**
 * The server that faults may hit. Other kinds of servers (replicated, under a false clock, on a small disk)
 * implement it as well.
 */
export interface FaultServer {
  /** A superuser's connection to the server itself, past every proxy and pooler. */
  readonly adminUrl: string;
  /**
   * Stops the server; resolves when it is down. `immediate`: a crash by signal (QUIT to all); `kill`: -9 to
   * the postmaster; `fast`: an orderly stop.
   */
  readonly stop: (how: 'immediate' | 'kill' | 'fast') => Promise<void>;
  /**
   * Starts the server with the same data and port. Resolves when it accepts connections; throws after 30
   * seconds.
   */
  readonly start: () => Promise<void>;
}

/** A kind of fault: how it is made, and how long it lasts. */
export interface FaultMaker {
  readonly kind: string;
  /**
   * Shortest and longest milliseconds from `start` to `heal`; the actual time is drawn evenly between them.
   */
  readonly lastsMs: readonly [number, number];
  /**
   * Resources that the fault needs for itself: two faults under way never share one. A maker without any runs
   * beside every other fault. `server`: the database; `scheduler`, `worker`, `network`, `pooler`: some of
   * those.
   */
  readonly takes: readonly ('server' | 'scheduler' | 'worker' | 'network' | 'pooler')[];
  /**
   * Damage that a checker must excuse. `recent-commits`: asynchronous commits (claims, batches) of the last
   * second may be gone; `shipped-commits`: everything that was not shipped may be gone; `clock`: the
   * database's clock jumps.
   */
  readonly spoils?: readonly ('recent-commits' | 'shipped-commits' | 'clock')[];
  /** Reason why the fault can't be made here (a missing program); undefined if it can. */
  readonly missing?: string;
  /**
   * Creates one fault. `random` returns numbers from 0 to 1 drawn from the seed: all choices of the fault
   * come from it.
   */
  readonly make: (random: () => number) => Fault;
}
