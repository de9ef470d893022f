import { wholeShare } from '../lease/timing.ts';
/** How long a claimer that found less than it has room for waits before it looks again. */
export interface Pace {
  /** After a claim of `got` of `asked` jobs. Milliseconds; 0: at once. */
  readonly next: (claim: {
    readonly got: number;
    readonly asked: number;
    readonly nowMs: number;
    /** Whether hints of work are heard. */
    readonly hearing: boolean;
    /** Whether it brought a job that was lost with its node before. Default false. */
    readonly suspect?: boolean;
  }) => number;
  /** Work has been heard of. */
  readonly hurry: () => void;
}

const firstMs = 50;
/** Hints wake it, so polling is only for those that are lost. */
const lastHearingMs = 10_000;
/** Of suspects that wait time alone tells when more may begin: for a minute after one did it looks that often. */
const lastSuspectMs = 500;
const suspectMs = 60_000;
/** Without hints it looks often for a while after the last job, and very often right after it. */
const firstBusyMs = 10;
const lastBusyMs = 100;
const lastIdleMs = 500;
const busyMs = 2_000;
/** How much longer each wait is than the one before: less where only looking finds out. */
const growth = { hearing: 2, polling: 1.5 } as const;

/** The wait grows while nothing is found. */
export function createPace(): Pace {
  let waitMs = firstMs;
  let foundAt = -Infinity;
  let suspectAt = -Infinity;
  return {
    next: ({ got, asked, nowMs, hearing, suspect = false }) => {
      if (suspect) suspectAt = nowMs;
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
    hurry: () => {
      waitMs = firstMs;
    },
  };
}

/** The work items that a claim reads. */
export interface ClaimRange {
  /** Positions from the low-water mark on. */
  readonly from: number;
  /** True: all work items are read, and leases that have ended are reaped. */
  readonly whole: boolean;
}

/** Where claims begin to look, so that they don't pass again what was deleted; and when they look at all. */
export interface LowWater {
  readonly range: (nowMs: number) => ClaimRange;
  /** Something may be ready behind it: the next claim looks at all. */
  readonly drop: () => void;
  /** What a claim brought: its last job's position, and whether it got all that it asked for. `tookMs`: it. */
  readonly saw: (claim: {
    readonly last: number | undefined;
    readonly filled: boolean;
    readonly tookMs: number;
  }) => void;
}

/** Released items, and late commits, fall behind the mark. Looks for them may take this part of the time: they pass what ended since the first item that is there. */
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
      // a claim that was filled may have left ready items right behind its last one, even where the mark was further on
      mark = filled ? behind : Math.max(mark, behind);
    },
  };
}

/** Where a look at all work items begins, so that what was deleted before it is passed once, however long vacuum can't remove it. */
export interface Floor {
  /** `nowMs`: of a clock that only goes on. */
  readonly begin: (nowMs: number) => Promise<number>;
  readonly saw: (items: readonly { readonly position: number }[]) => void;
  /** The database may have been replaced by one that knows less: everything is looked at again. */
  readonly forget: () => void;
}

/** From the very first position: as often, and no more than that. */
const wholeMs = 60_000;

/**
 * `first`: the lowest position that is there from one on; null: none is. Positions only grow: nothing comes before it any more. So from the very first
 * position it is asked beside the claims, which don't wait for it: behind an old snapshot it takes seconds.
 */
export function createFloor(first: (from: number) => Promise<number | null>): Floor {
  let floor: number | undefined;
  let last = -1;
  /** What `last` was when it was asked: as long as nothing was claimed since, nothing was deleted that a claim would pass again. */
  let asked: number | undefined;
  let wholeAt = -Infinity;
  const firstOfAll = async (nowMs: number): Promise<number | null> => {
    wholeAt = Infinity; // not twice at a time
    try {
      return await first(0);
    } finally {
      wholeAt = nowMs + Math.max(wholeMs, (performance.now() - nowMs) / wholeShare);
    }
  };
  const lookBeside = (nowMs: number): void => {
    firstOfAll(nowMs).then(
      (found) => {
        if (found !== null && floor !== undefined) floor = Math.min(floor, found);
      },
      () => {}, // claims find out, too
    );
  };
  return {
    begin: async (nowMs) => {
      if (floor !== undefined && nowMs >= wholeAt) lookBeside(nowMs);
      if (floor !== undefined && asked === last) return floor;
      asked = last;
      const from = floor;
      const found = from === undefined ? await firstOfAll(nowMs) : await first(from);
      // a look beside may have found one before it meanwhile
      if (floor === from) floor = found ?? Math.max(from ?? 0, last + 1);
      return floor ?? 0;
    },
    saw: (items) => {
      for (const { position } of items) last = Math.max(last, position);
    },
    forget: () => {
      [floor, last, asked, wholeAt] = [undefined, -1, undefined, -Infinity];
    },
  };
}
