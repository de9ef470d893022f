// What can be done to a running system. Faults are values: the nemesis chooses among their makers by its seed.

/** One fault, made once. */
export interface Fault {
  /** Of the fault matrix, in kebab case: `worker-kill`, `postgres-immediate`. Recovery times are told by it. */
  readonly kind: string;
  /** The process it hits, by name, where it hits a single one. */
  readonly target?: string;
  /** Resolves when the fault is there. Throws when it could not be made; then `heal` is called, too, and it is not counted. */
  readonly start: () => Promise<void> | void;
  /** Resolves when what it took away is back: processes run, the server accepts connections. Never hangs: bounded by the maker. */
  readonly heal: () => Promise<void> | void;
}

/** What a maker may hit. Servers of other kinds (replicated, under a false clock, on a small disk) implement it as well. */
export interface FaultServer {
  /** A superuser's connection to the server itself, past every proxy and pooler. */
  readonly adminUrl: string;
  /** `immediate` is a crash by signal (QUIT to all), `kill` is -9 to the postmaster, `fast` an orderly stop. Resolves when it is down. */
  readonly stop: (how: 'immediate' | 'kill' | 'fast') => Promise<void>;
  /** Same data, same port. Resolves when it accepts connections; throws after a minute. */
  readonly start: () => Promise<void>;
}

/** How a kind of fault is made, and how long it lasts. */
export interface FaultMaker {
  readonly kind: string;
  /** A fault lasts from `start` to `heal` so long: drawn evenly from the two. */
  readonly lastsMs: readonly [number, number];
  /**
   * What it takes for itself: no two faults under way share one. A maker that names none goes beside any other.
   * `server`: the database; `scheduler`, `worker`, `network`, `pooler`: some of those.
   */
  readonly takes: readonly ('server' | 'scheduler' | 'worker' | 'network' | 'pooler')[];
  /**
   * What a checker must excuse because of it. `recent-commits`: what committed asynchronously (claims, batches) less than a second
   * before may be gone; `shipped-commits`: anything may be gone that was not shipped; `clock`: the database's clock jumps.
   */
  readonly spoils?: readonly ('recent-commits' | 'shipped-commits' | 'clock')[];
  /** Why it can't be made here (a program is missing); undefined: it can. */
  readonly missing?: string;
  /** `random`: 0 to 1, from the seed; all that the fault chooses comes from it. */
  readonly make: (random: () => number) => Fault;
}
