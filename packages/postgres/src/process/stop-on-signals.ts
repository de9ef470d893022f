/** Something that runs until it is stopped: a worker, a scheduler. */
export interface Stoppable {
  stop(): Promise<void>;
}

/** Handle returned by {@link stopOnSignals}. */
export interface StopOnSignals {
  /** Resolves after a signal, when everything has stopped. */
  readonly stopped: Promise<void>;
  /** Stops listening for signals. */
  readonly dispose: () => void;
}

/**
 * Stops workers and schedulers one after the other on SIGTERM or SIGINT, in the order given. Give workers
 * first: `stopOnSignals(worker, scheduler)`. A second signal ends the process at once, with code 1; so does a
 * stop that fails. After all have stopped, the process ends by itself unless something else keeps it alive.
 */
export function stopOnSignals(...parts: readonly Stoppable[]): StopOnSignals {
  const done = Promise.withResolvers<void>();
  let asked = false;
  const listener = (): void => {
    if (asked) process.exit(1);
    asked = true;
    void stopAll(parts).then(
      () => {
        dispose();
        done.resolve();
      },
      (error: unknown) => {
        process.stderr.write(
          `pgqueue: the stop failed: ${error instanceof Error ? error.message : String(error)}\n`,
        );
        process.exit(1);
      },
    );
  };
  const signals = ['SIGTERM', 'SIGINT'] as const;
  const dispose = (): void => {
    for (const signal of signals) process.off(signal, listener);
  };
  for (const signal of signals) process.on(signal, listener);
  return { stopped: done.promise, dispose };
}

/** One after the other: running jobs are settled before the scheduler leaves. */
async function stopAll(parts: readonly Stoppable[]): Promise<void> {
  for (const part of parts) await part.stop();
}
