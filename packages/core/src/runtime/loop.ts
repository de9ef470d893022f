/**
 * The loop that every process uses. `step` does some work and returns the delay before the next step; `wake`
 * ends a wait early. Steps never overlap. A wake during a step makes the next step follow at once.
 */
export interface Loop {
  readonly wake: () => void;
  /** Stops after the step under way. Resolves when nothing is running. */
  readonly stop: () => Promise<void>;
  /**
   * Milliseconds without progress, since the step under way began or the wait should have ended. 0 while the
   * loop waits as it should.
   */
  readonly stuckMs: () => number;
}

/** The work of a loop, and its reaction to failures. */
export interface LoopOptions {
  /** Does the work. Resolves to the milliseconds until the next step (0: at once). */
  readonly step: (signal: AbortSignal) => Promise<number>;
  /**
   * Handles an error of a step. Returns the milliseconds until the next try. `failures`: consecutive
   * failures, from 1.
   */
  readonly failed: (error: unknown, failures: number) => number;
}

/** Starts a loop; its first step runs at once. */
export function startLoop({ step, failed }: LoopOptions): Loop {
  const stopping = new AbortController();
  let woken = false;
  let endWait: (() => void) | undefined;
  /** Time at which the next step is due; while a step is under way, the time at which it began. */
  let dueAt = performance.now();

  const wait = (ms: number): Promise<void> => {
    if (woken || stopping.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      endWait = (): void => {
        clearTimeout(timer);
        resolve();
      };
    });
  };

  const run = async (): Promise<void> => {
    let failures = 0;
    await Promise.resolve(); // the caller gets its loop before the first step may want to wake it
    while (!stopping.signal.aborted) {
      let delayMs: number;
      woken = false;
      dueAt = performance.now();
      try {
        delayMs = await step(stopping.signal);
        failures = 0;
      } catch (error) {
        failures += 1;
        delayMs = failed(error, failures);
        woken = false; // wakes during a failing step do not shorten its backoff
      }
      dueAt = performance.now() + delayMs;
      if (delayMs > 0) await wait(delayMs);
      else await new Promise((resolve) => setImmediate(resolve)); // a busy loop lets other work run
      endWait = undefined;
    }
  };

  const running = run();
  return {
    wake: () => {
      woken = true;
      endWait?.();
    },
    stop: async () => {
      stopping.abort();
      endWait?.();
      await running;
    },
    stuckMs: () => (stopping.signal.aborted ? 0 : Math.max(0, performance.now() - dueAt)),
  };
}

/**
 * Returns the milliseconds before a loop retries: exponential backoff that doubles from 100 ms up to `maxMs`,
 * of which the upper half is random (equal jitter).
 * @param failures consecutive failures, from 1
 */
export function retryPauseMs(failures: number, maxMs = 5_000, random: () => number = Math.random): number {
  return Math.min(maxMs, 100 * 2 ** Math.min(failures - 1, 20)) * (0.5 + random() / 2);
}
