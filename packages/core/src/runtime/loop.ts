/**
 * The one loop of every process: `step` does some work and says how long to wait before the next; `wake` ends a wait
 * early. Steps never overlap. A wake during a step makes the next one follow at once.
 */
export interface Loop {
  readonly wake: () => void;
  /** Ends after the step under way; resolves when nothing runs any more. */
  readonly stop: () => Promise<void>;
  /** For how long it has made no progress: since the step under way began, or a wait should have ended. 0: it waits as it should. */
  readonly stuckMs: () => number;
}

/** What a loop does, and how it goes on when that fails. */
export interface LoopOptions {
  /** Does the work; resolves to the milliseconds until the next step (0: at once). */
  readonly step: (signal: AbortSignal) => Promise<number>;
  /** A step that threw: say so; resolves to the milliseconds until the next try. `failures` counts them in a row, from 1. */
  readonly failed: (error: unknown, failures: number) => number;
}

/** Starts a loop; its first step runs at once. */
export function startLoop({ step, failed }: LoopOptions): Loop {
  const stopping = new AbortController();
  let woken = false;
  let endWait: (() => void) | undefined;
  /** When the next step is due; while one is under way, when it began. */
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
    await Promise.resolve(); // the caller has its loop in hand before the first step may want to wake it
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
        woken = false; // a failing step is not hurried by hints
      }
      dueAt = performance.now() + delayMs;
      if (delayMs > 0) await wait(delayMs);
      else await new Promise((resolve) => setImmediate(resolve)); // a busy loop lets the others in
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

/** Bounded exponential backoff with full jitter, for retries of loops: 100 ms doubling up to `maxMs`. */
export function retryPauseMs(failures: number, maxMs = 5_000, random: () => number = Math.random): number {
  return Math.min(maxMs, 100 * 2 ** Math.min(failures - 1, 20)) * (0.5 + random() / 2);
}
