import type { Hints } from '@pgqueue/postgres/internal';

/** After these times a transaction that was just written to has likely committed; a longer one is found by polling. */
const stepsMs: readonly number[] = [2, 20, 100];

export interface LateHints {
  /** Asks for hints at each of the steps from now. Calls coalesce: a new one begins anew with the steps. */
  readonly send: () => void;
  readonly stop: () => void;
}

/**
 * Hints for jobs that were enqueued in somebody else's transaction: when it commits is not known, and a NOTIFY within it would
 * serialise the commits of the application. A few spaced hints from outside cost next to nothing.
 */
export function createLateHints(hints: Hints): LateHints {
  let timer: NodeJS.Timeout | undefined;
  let step = 0;

  const next = (): void => {
    const at = stepsMs[step];
    if (at === undefined) return;
    const waited = stepsMs[step - 1] ?? 0;
    step += 1;
    timer = setTimeout(() => {
      timer = undefined;
      hints.send();
      next();
    }, at - waited);
    timer.unref();
  };

  return {
    send: () => {
      const early = step <= 1 && timer !== undefined; // the first step is still to come
      if (early) return;
      clearTimeout(timer);
      step = 0;
      next();
    },
    stop: () => clearTimeout(timer),
  };
}
