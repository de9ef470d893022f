/** Decides how long a claimer waits after a claim that found less than it asked for. */
export interface Pace {
  /** Returns the milliseconds to wait after a claim that got `got` of `asked`; 0: claim again at once. */
  readonly next: (claim: {
    readonly got: number;
    readonly asked: number;
    readonly nowMs: number;
    /** True while hints of work are received. */
    readonly hearing: boolean;
    /** True if the claim brought a job that was lost with its node before. Default false. */
    readonly suspect?: boolean;
  }) => number;
  /**
   * Call when the node holds nothing any more. Returns true if a suspect was claimed since the last time: another
   * one may have waited for it.
   */
  readonly emptied: () => boolean;
  /** Resets the wait after a hint of work. */
  readonly hurry: () => void;
}

const firstMs = 50;
/** Longest wait while hints are received: hints wake the claimer, so polling only covers lost ones. */
const lastHearingMs = 30_000;
/**
 * Longest wait for one minute after a suspect was found: time alone decides when more suspects may begin, so
 * no hint comes.
 */
const lastSuspectMs = 500;
const suspectMs = 60_000;
/** Waits without hints: from 10 ms after a job, up to 100 ms for 2 s, then up to 500 ms. */
const firstBusyMs = 10;
const lastBusyMs = 100;
const lastIdleMs = 500;
const busyMs = 2_000;
/** Growth of each wait over the one before; smaller without hints, when only polling finds work. */
const growth = { hearing: 2, polling: 1.5 } as const;

/** Creates a pace whose waits grow while nothing is found. */
export function createPace(): Pace {
  let waitMs = firstMs;
  let foundAt = -Infinity;
  let suspectAt = -Infinity;
  let hadSuspect = false;
  return {
    next: ({ got, asked, nowMs, hearing, suspect = false }) => {
      if (suspect) [suspectAt, hadSuspect] = [nowMs, true];
      if (got > 0) {
        foundAt = nowMs;
        waitMs = hearing ? firstMs : firstBusyMs;
      }
      if (got >= asked) return 0;
      const pollingMs = nowMs - foundAt < busyMs ? lastBusyMs : lastIdleMs;
      const hearingMs = nowMs - suspectAt < suspectMs ? lastSuspectMs : lastHearingMs;
      const lastMs = hearing ? hearingMs : pollingMs;
      const nextMs = Math.min(waitMs, lastMs);
      waitMs = Math.min(lastMs, waitMs * (hearing ? growth.hearing : growth.polling));
      return nextMs;
    },
    emptied: () => {
      const had = hadSuspect;
      hadSuspect = false;
      return had;
    },
    hurry: () => {
      waitMs = firstMs;
    },
  };
}

/** Work items that a claim reads. */
export interface ClaimRange {
  /** Lowest position to read: the watermark, or 0 for all that is there. */
  readonly from: number;
  /** True for a full rescan: the claim reads all work items, and reaps expired leases. */
  readonly whole: boolean;
}

/**
 * Keeps the watermark from which claims start, so that they do not re-read deleted rows, and decides when a
 * full rescan is due.
 */
export interface LowWater {
  readonly range: (nowMs: number) => ClaimRange;
  /** Makes the next claim a full rescan: something may be ready below the watermark. */
  readonly drop: () => void;
  /**
   * Records a claim: the position of its last job, whether it got all that it asked for, and its duration.
   */
  readonly saw: (claim: {
    readonly last: number | undefined;
    readonly filled: boolean;
    readonly tookMs: number;
  }) => void;
}

/**
 * Full rescans find released items and late commits, which land below the watermark. They run once a second,
 * or less often so that they take at most 5 % of the time, but at least every 30 s. Each re-reads what ended
 * since the first live item.
 */
const rescanMs = 1_000;
const rescanShare = 0.05;
const rescanMaxMs = 30_000;

export function createLowWater(): LowWater {
  let mark = 0;
  let rescanAt = -Infinity;
  let rescanning = false;
  return {
    range: (nowMs) => {
      if (nowMs < rescanAt) return { from: mark, whole: false };
      rescanAt = nowMs + rescanMs;
      rescanning = true;
      return { from: 0, whole: true };
    },
    drop: () => {
      rescanAt = -Infinity;
    },
    saw: ({ last = -1, filled, tookMs }) => {
      if (rescanning) rescanAt += Math.max(0, Math.min(rescanMaxMs, tookMs / rescanShare) - rescanMs);
      rescanning = false;
      const behind = last + 1;
      // A filled claim may have left ready items right behind its last one, below the present watermark.
      mark = filled ? behind : Math.max(mark, behind);
    },
  };
}
