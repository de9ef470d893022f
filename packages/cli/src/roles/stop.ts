/** Waits for the signals that end a process: the first is a request, the second ends it at once, with code 1. */
export interface StopRequest {
  readonly asked: Promise<NodeJS.Signals>;
  readonly dispose: () => void;
}

export function onStopSignals(): StopRequest {
  const { promise: asked, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let first = true;
  const listener = (signal: NodeJS.Signals): void => {
    if (!first) process.exit(1);
    first = false;
    resolve(signal);
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
