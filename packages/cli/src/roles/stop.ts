/** What ends a process: a first time it is a request. */
export interface StopRequest {
  readonly asked: Promise<void>;
  /** What a second time does; empty: nothing. */
  readonly again: string;
  readonly dispose: () => void;
}

const signals = ['SIGTERM', 'SIGINT'] as const;

/** The first signal is a request, the second ends the process at once, with code 1, after `atOnce`. */
export function onStopSignals(atOnce: () => void = () => {}): StopRequest {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  let first = true;
  const dispose = onSignals(() => {
    if (!first) {
      atOnce();
      process.exit(1);
    }
    first = false;
    resolve();
  });
  return { asked, again: 'a second signal ends it at once', dispose };
}

/** For a process that another one has started, and stops by leaving it: a terminal sends its signals to both. */
export function onParentGone(): StopRequest {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  if (process.connected) process.once('disconnect', resolve);
  else resolve();
  const disposeSignals = onSignals(() => {});
  return {
    asked,
    again: '',
    dispose: () => {
      process.off('disconnect', resolve);
      disposeSignals();
    },
  };
}

function onSignals(listener: () => void): () => void {
  for (const signal of signals) process.on(signal, listener);
  return () => {
    for (const signal of signals) process.off(signal, listener);
  };
}
