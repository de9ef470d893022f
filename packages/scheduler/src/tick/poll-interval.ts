import type { Settings } from '../options.ts';

/** When the next tick comes. */
export interface Pace {
  /** Whether this tick should ask, too, when sweeps are due. `woken`: it is one of many, for slots that became free. */
  readonly asksDue: (woken: boolean) => boolean;
  /** A tick begins that does not look. Returns whether the next one must, since it is time to ask when sweeps are due. */
  readonly skips: () => boolean;
  /** Milliseconds until the next. */
  readonly next: (tick: {
    /** Dispatched by this one. */
    readonly jobs: number;
    /** Something is to be read before it can be planned. */
    readonly atOnce: boolean;
    /** There may be more to dispatch. */
    readonly more: boolean;
    /** In how many milliseconds, from the snapshot on, something that is held may go; null: not by time. */
    readonly nextMs: number | null;
  }) => number;
}

/** Ticks in a row that may follow at once although they dispatched nothing: they walk through pages of held jobs. */
const fruitlessMax = 32;
/** How often a tick asks, too, when sweeps are due. */
const dueEveryMs = 50;
/** The same where slots are waiting for this tick. */
const dueWokenMs = 150;
/** The same while hints tell all: the look delays a job that comes during it. */
const dueHintedMs = 500;
/** Without hints, a tick comes at least every 100 ms for so long after the last job. */
const busyMs = 2_000;
/** How much longer each wait is than the one before: less where only looking finds out. */
const growth = { hearing: 2, polling: 1.5 } as const;

/** Not at all while there is more, little while busy, ever longer while idle; and exactly when a rate lets the next job go. */
export function createPace({
  settings,
  hearing,
}: {
  readonly settings: Pick<Settings, 'pollMs'>;
  readonly hearing: () => boolean;
}): Pace {
  const { min, max } = settings.pollMs;
  let delayMs = min;
  let fruitless = 0;
  let busyAt = -Infinity;
  let askedAt = -Infinity;
  let asked = false;
  let startedAt = performance.now();

  const longest = (): number => {
    if (hearing()) return max;
    return Math.min(max, performance.now() - busyAt < busyMs ? 100 : 500);
  };
  return {
    asksDue: (woken) => {
      startedAt = performance.now();
      asked = startedAt - askedAt >= (woken ? dueWokenMs : dueEveryMs);
      if (asked) askedAt = startedAt;
      return asked;
    },
    skips: () => {
      startedAt = performance.now();
      asked = false;
      return startedAt - askedAt >= dueHintedMs;
    },
    next: ({ jobs, atOnce, more, nextMs }) => {
      if (jobs > 0) busyAt = performance.now();
      fruitless = jobs > 0 ? 0 : fruitless + 1;
      if ((more || atOnce) && fruitless < fruitlessMax) return 0;
      const slower = delayMs * (hearing() ? growth.hearing : growth.polling);
      delayMs = jobs > 0 || more ? min : Math.min(longest(), slower);
      const pause = asked ? delayMs : Math.min(delayMs, dueEveryMs);
      if (nextMs === null) return pause;
      return Math.max(1, Math.min(pause, nextMs - (performance.now() - startedAt)));
    },
  };
}
