/** What did not come back in its time is left alone for a while: for a second at first, up to a minute where it happens again. */
export interface Pauses {
  /** It overran. Returns how long it is left alone. */
  readonly begin: (name: string) => number;
  readonly active: (name: string) => boolean;
  /** It overran lately: a pause began, or ended not long ago. */
  readonly lately: (name: string) => boolean;
}

const firstMs = 1_000;
const longestMs = 60_000;
/** After this long without another overrun, in addition to the last pause, the next one counts as the first. */
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

/** The gates and orders that did not come back: they are not asked again about the job that it happened with, or at all. */
export interface Hung {
  /** `job`: null where it hung apart from any. Returns how long it is not asked. */
  readonly add: (part: string, job: string | null) => number;
  readonly avoids: (part: string, job: string | null) => boolean;
}

/** A part that hangs with so many jobs is not asked about any. */
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
