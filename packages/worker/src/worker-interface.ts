/** One worker node. */
export interface Worker {
  readonly node: string;
  /** Port of the health checks, from `start` on; undefined: none are served. */
  readonly healthPort: number | undefined;
  /** Slots in use: handlers that have not returned. A handler with a bundle uses one. */
  readonly running: number;
  /**
   * Checks the schema's version, registers the node and begins to claim. A database that cannot be reached is
   * tried again until `stop`. A node id whose last holder may be alive is tried again until that is known.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`, `configuration` (the port of its health checks
   * is taken)
   */
  start(): Promise<void>;
  /**
   * Ends in order: claims no more, gives back jobs that have not started, waits up to `drainMs` for running
   * handlers, aborts the signals of the others, gives back, uncounted, the jobs that still do not end, and
   * leaves. This takes at most 15 s beyond `drainMs`, whatever the database does. May be called again, and at
   * any time.
   * @throws {PgQueueError} `configuration`: `drainMs` is not valid; nothing is stopped
   */
  stop(options?: { readonly drainMs?: number }): Promise<void>;
  /**
   * Gives all running jobs back at once, uncounted, and ends the node. Handlers go on, and nothing that they do
   * counts any more: call this right before the process exits. Takes as long as one statement, after up to
   * 200 ms in which jobs that have ended are settled.
   */
  leave(): Promise<void>;
  /**
   * Resolves when the worker was stopped. Rejects when it had to end by itself: `node_id_in_use`, another
   * live node has taken its id.
   */
  readonly ended: Promise<void>;
}
