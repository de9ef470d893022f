/** Something that runs until it is stopped: a worker, a scheduler. */
export interface Stoppable {
  stop(): Promise<void>;
  /** Gives running jobs back at once, before the process exits. */
  leave?(): Promise<void>;
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
 * first: `stopOnSignals(worker, scheduler)`. A second signal ends the process with code 1, within half a
 * second, in which running jobs are given back; a third one ends it at once. A stop that fails ends it with
 * code 1, too. After all have stopped, the process ends by itself unless something else keeps it alive.
 */
export function stopOnSignals(...parts: readonly Stoppable[]): StopOnSignals {
  const { asked, dispose } = onStopSignals(...parts);
  const stopped = asked
    .then(() => stopAll(parts))
    .then(dispose, (error: unknown) => {
      process.stderr.write(
        `pgqueue: the stop failed: ${error instanceof Error ? error.message : String(error)}\n`,
      );
      process.exit(1);
    });
  return { stopped, dispose };
}

/** Request to stop, made by a signal. */
export interface StopRequest {
  /** Resolves on the first signal. */
  readonly asked: Promise<void>;
  /** Stops listening for signals. */
  readonly dispose: () => void;
}

/**
 * Listens for SIGTERM and SIGINT. The first signal resolves `asked`; the second ends the process with code 1,
 * after up to half a second in which the parts give their running jobs back; the third ends it at once.
 */
export function onStopSignals(...parts: readonly Pick<Stoppable, 'leave'>[]): StopRequest {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  let signalled = 0;
  const listener = (): void => {
    signalled += 1;
    if (signalled > 2) process.exit(1);
    if (signalled === 2) exitSoon(parts);
    else resolve();
  };
  const signals = ['SIGTERM', 'SIGINT'] as const;
  for (const signal of signals) process.on(signal, listener);
  return {
    asked,
    dispose: () => {
      for (const signal of signals) process.off(signal, listener);
    },
  };
}

/** Time in which the parts can give back their jobs before the process exits. */
const leaveMs = 500;

/** Ends the process with code 1, once the parts have given their running jobs back; 0.5 s later at most. */
function exitSoon(parts: readonly Pick<Stoppable, 'leave'>[]): void {
  const exit = (): never => process.exit(1);
  setTimeout(exit, leaveMs);
  void Promise.allSettled(parts.map(async (part) => part.leave?.())).then(exit);
}

/** One after the other: running jobs are settled before the scheduler leaves. */
async function stopAll(parts: readonly Stoppable[]): Promise<void> {
  for (const part of parts) await part.stop();
}
