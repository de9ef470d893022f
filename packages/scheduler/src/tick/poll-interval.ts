import type { Settings } from '../options.ts';
import { createRest } from './rest.ts';

/** Decides when the next tick runs. */
export interface PollInterval {
  /**
   * Reports whether this tick should also ask when sweeps are due. `woken`: a hint of free slots woke this
   * tick, and many more may follow.
   */
  readonly asksDue: (woken: boolean) => boolean;
  /**
   * Call when a tick begins that does not read. Returns true if the next tick must read, because it is time
   * to ask when sweeps are due.
   */
  readonly skips: () => boolean;
  /** Returns the milliseconds until the next tick. */
  readonly next: (tick: {
    /** Jobs dispatched by this tick. */
    readonly jobs: number;
    /** True if the next tick must read something before it can plan. */
    readonly atOnce: boolean;
    /** True if there may be more to dispatch. */
    readonly more: boolean;
    /** Milliseconds from the snapshot until a held job may go; null: not by time. */
    readonly nextMs: number | null;
  }) => number;
  /** Returns the milliseconds for which a tick that must read is to wait. */
  readonly restMs: () => number;
}

/**
 * Most consecutive ticks without a pause that dispatch nothing. Such ticks walk through pages of held jobs.
 */
const fruitlessMax = 32;
/** Shortest time between two ticks that ask when sweeps are due, in milliseconds. */
const dueEveryMs = 50;
/** The same while free slots wait for this tick. */
const dueWokenMs = 150;
/** The same while ticks plan from hints, since a read delays any job that arrives during it. */
const dueHintedMs = 500;
/** For this long after the last job, ticks without hints come at least every 100 ms. */
const busyMs = 2_000;
/** Growth of the pause between idle ticks; slower without hints, when only a read finds new jobs. */
const growth = { hearing: 2, polling: 1.5 } as const;

/**
 * Paces the ticks: no pause while there is more, short pauses while busy, growing pauses while idle, and
 * exactly on time when a rate allows the next job.
 */
export function createPollInterval({
  settings,
  hearing,
}: {
  readonly settings: Pick<Settings, 'pollMs'>;
  readonly hearing: () => boolean;
}): PollInterval {
  const { min, max } = settings.pollMs;
  let delayMs = min;
  let fruitless = 0;
  let busyAt = -Infinity;
  let askedAt = -Infinity;
  let asked = false;
  let startedAt = performance.now();
  let reads = false;
  const rest = createRest();

  const longest = (): number => {
    if (hearing()) return max;
    return Math.min(max, performance.now() - busyAt < busyMs ? 100 : 500);
  };
  return {
    asksDue: (woken) => {
      startedAt = performance.now();
      reads = true;
      asked = startedAt - askedAt >= (woken ? dueWokenMs : dueEveryMs);
      if (asked) askedAt = startedAt;
      return asked;
    },
    skips: () => {
      startedAt = performance.now();
      reads = false;
      asked = false;
      return startedAt - askedAt >= dueHintedMs;
    },
    next: ({ jobs, atOnce, more, nextMs }) => {
      if (jobs > 0) busyAt = performance.now();
      fruitless = jobs > 0 ? 0 : fruitless + 1;
      const goesOn = (more || atOnce) && fruitless < fruitlessMax;
      if (reads) rest.ticked({ startedAt, jobs, more: goesOn });
      if (goesOn) return 0;
      const slower = delayMs * (hearing() ? growth.hearing : growth.polling);
      delayMs = jobs > 0 || more ? min : Math.min(longest(), slower);
      const pause = asked ? delayMs : Math.min(delayMs, dueEveryMs);
      if (nextMs === null) return pause;
      return Math.max(1, Math.min(pause, nextMs - (performance.now() - startedAt)));
    },
    restMs: rest.leftMs,
  };
}
