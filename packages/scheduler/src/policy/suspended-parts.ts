/**
 * Suspends code that ran out of time: for a second at first, then twice as long each time, up to a minute.
 */
export interface Pauses {
  /** Call after an overrun. Returns the length of the pause in milliseconds. */
  readonly begin: (name: string) => number;
  readonly active: (name: string) => boolean;
  /** Reports a recent overrun: a pause is active, or ended not long ago. */
  readonly lately: (name: string) => boolean;
}

const firstMs = 1_000;
const longestMs = 60_000;
/**
 * Milliseconds without an overrun, beyond the length of the last pause, after which the next overrun counts
 * as the first.
 */
const forgiveMs = 10_000;

interface Pause {
  readonly until: number;
  readonly ms: number;
}

export function createPauses(clock: () => number): Pauses {
  const pauses = new Map<string, Pause>();
  const lately = (name: string): Pause | undefined => {
    const pause = pauses.get(name);
    return pause !== undefined && clock() < pause.until + pause.ms + forgiveMs ? pause : undefined;
  };
  return {
    begin: (name) => {
      const before = lately(name);
      const ms = before === undefined ? firstMs : Math.min(longestMs, before.ms * 2);
      pauses.set(name, { until: clock() + ms, ms });
      return ms;
    },
    active: (name) => (pauses.get(name)?.until ?? -Infinity) > clock(),
    lately: (name) => lately(name) !== undefined,
  };
}

/** Gates and orders that hung. They are not asked again about the job they hung on, or not at all. */
export interface Hung {
  /** Notes an overrun. `job`: null if the part hung outside of any job. Returns the pause in milliseconds. */
  readonly add: (part: string, job: string | null) => number;
  readonly avoids: (part: string, job: string | null) => boolean;
}

/** A part that hangs on this many jobs is not asked about any job. */
const jobsMax = 3;

export function createHung(clock: () => number): Hung {
  const pauses = createPauses(clock);
  const jobsOf = new Map<string, Set<string>>();
  return {
    add: (part, job) => {
      const jobs = (pauses.lately(part) ? jobsOf.get(part) : undefined) ?? new Set<string>();
      jobsOf.set(part, jobs.add(job ?? ''));
      return pauses.begin(part);
    },
    avoids: (part, job) => {
      if (jobsOf.size === 0) return false;
      const jobs = jobsOf.get(part);
      if (jobs === undefined || !pauses.active(part)) return false;
      return jobs.has(job ?? '') || jobs.has('') || jobs.size >= jobsMax;
    },
  };
}
