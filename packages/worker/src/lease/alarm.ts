/** Longest delay of a Node timer: 24.8 days. Longer alarms take several timers. */
const longestMs = 2_147_000_000;
/**
 * Node keeps timers of equal length in one list, and the lists in a heap. So delays of 10 s or more are
 * rounded down to a multiple of 5 s, and the rest is set as a second timer.
 */
const coarseMs = 10_000;
const stepMs = 5_000;

/** Rings at a time that can be set anew. */
export class Alarm {
  readonly #ring: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** Milliseconds left to wait after the present timer. */
  #restMs = 0;

  constructor(ring: () => void) {
    this.#ring = ring;
  }

  /** Rings this long from now, in place of the time that was set before. */
  set(ms: number): void {
    clearTimeout(this.#timer);
    const firstMs = ms < coarseMs ? Math.max(0, ms) : Math.min(longestMs, ms - (ms % stepMs));
    this.#restMs = ms < coarseMs ? 0 : ms - firstMs;
    this.#timer = setTimeout(onTimer, firstMs, this);
  }

  /** Call when the present timer has rung. */
  rang(): void {
    if (this.#restMs > 0) this.set(this.#restMs);
    else this.#ring();
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}

function onTimer(alarm: Alarm): void {
  alarm.rang();
}
