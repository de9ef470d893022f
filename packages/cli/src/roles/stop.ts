import type { Stoppable } from '@pgqueue/postgres';
import { exitSoon } from '@pgqueue/postgres/internal';

/** Request to stop, made by a signal. */
export interface StopRequest {
  readonly asked: Promise<void>;
  readonly dispose: () => void;
}

const signals = ['SIGTERM', 'SIGINT'] as const;

/**
 * Listens for SIGTERM and SIGINT. The first signal resolves `asked`; the second exits with code 1, after up to
 * half a second for `part` to give its running jobs back; the third exits at once.
 */
export function onStopSignals(part: Pick<Stoppable, 'leave'> = {}): StopRequest {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  let signalled = 0;
  const listener = (): void => {
    signalled += 1;
    if (signalled > 2) process.exit(1);
    if (signalled === 2) exitSoon([part]);
    else resolve();
  };
  for (const signal of signals) process.on(signal, listener);
  return {
    asked,
    dispose: () => {
      for (const signal of signals) process.off(signal, listener);
    },
  };
}
