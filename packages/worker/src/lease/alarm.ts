/** A timer that holds 24.8 days at most: longer ones are set again. */
const longestMs = 2_147_000_000;
/** Timers that last equally long stand in one list, others in a heap: so long ones are rounded off, and set again for the rest. */
const coarseMs = 10_000;
const stepMs = 5_000;

export interface Alarm {
  /** Rings this long from now, instead of when it would have. */
  readonly set: (ms: number) => void;
  readonly clear: () => void;
}

export function createAlarm(ring: () => void): Alarm {
  return new Timer(ring);
}

class Timer implements Alarm {
  readonly #ring: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** Beside what the timer takes. */
  #restMs = 0;

  constructor(ring: () => void) {
    this.#ring = ring;
  }

  set(ms: number): void {
    clearTimeout(this.#timer);
    const firstMs = ms < coarseMs ? Math.max(0, ms) : Math.min(longestMs, ms - (ms % stepMs));
    this.#restMs = ms < coarseMs ? 0 : ms - firstMs;
    this.#timer = setTimeout(onTimer, firstMs, this);
  }

  rang(): void {
    if (this.#restMs > 0) this.set(this.#restMs);
    else this.#ring();
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}

function onTimer(timer: Timer): void {
  timer.rang();
}
