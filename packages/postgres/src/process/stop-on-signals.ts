/** Something that runs until it is stopped: a worker, a scheduler. */
export interface Stoppable {
  stop(): Promise<void>;
}

/** How {@link stopOnSignals} ends a process. */
export interface StopOnSignals {
  /** Resolves when a signal has come and everything has stopped. */
  readonly stopped: Promise<void>;
  /** Listens no more. */
  readonly dispose: () => void;
}

/**
 * Stops workers and schedulers in order on SIGTERM or SIGINT, workers first: `stopOnSignals(worker)`. A second signal ends the process
 * at once, with code 1; so does a stop that fails. When all have stopped the process ends by itself, where nothing else keeps it.
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

/** One after the other: what runs settles before the scheduler leaves. */
async function stopAll(parts: readonly Stoppable[]): Promise<void> {
  for (const part of parts) await part.stop();
}
