/** Request to stop, made by a signal. */
export interface StopRequest {
  readonly asked: Promise<void>;
  readonly dispose: () => void;
}

const signals = ['SIGTERM', 'SIGINT'] as const;

/**
 * Listens for SIGTERM and SIGINT. The first signal resolves `asked`; the second exits at once with code 1.
 */
export function onStopSignals(): StopRequest {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  let first = true;
  const listener = (): void => {
    if (!first) process.exit(1);
    first = false;
    resolve();
  };
  for (const signal of signals) process.on(signal, listener);
  return {
    asked,
    dispose: () => {
      for (const signal of signals) process.off(signal, listener);
    },
  };
}
