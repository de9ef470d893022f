import { retryPauseMs } from '@pgqueue/core/internal';

/** Kinds of sweeps. */
export type SweepKind =
  | 'promote'
  | 'cron'
  | 'expire'
  | 'nextLoss'
  | 'sessions'
  | 'loseNodes'
  | 'reap'
  | 'history'
  | 'trim'
  | 'activity';

/**
 * Shortest interval between two sweeps of a kind, in milliseconds. Promoting, cron and lost nodes must be on
 * time; the others are never urgent.
 */
export const everyMs: Readonly<Record<SweepKind, number>> = {
  promote: 0,
  cron: 50,
  expire: 1_000,
  nextLoss: 100,
  sessions: 0,
  loseNodes: 100,
  reap: 1_000,
  history: 60_000,
  trim: 1_000,
  activity: 1_000,
};
export const kinds = Object.keys(everyMs) as readonly SweepKind[];
/** Longest time until the next look at the agenda. */
export const idleMs = 3_600_000;

/** Due times of the sweeps, by the monotonic clock. */
export interface Agenda {
  /**
   * Schedules a sweep in `inMs` milliseconds, but not before its shortest interval has passed; null:
   * unschedules it.
   */
  readonly set: (kind: SweepKind, inMs: number | null) => void;
  readonly due: (kind: SweepKind) => boolean;
  readonly begin: (kind: SweepKind) => void;
  /**
   * Notes a finished sweep. `again`: as for `set`, but 0 means at once, regardless of the interval, and an
   * earlier time that was set during the sweep stays; undefined: the ticks decide.
   */
  readonly done: (kind: SweepKind, again: number | null | undefined) => void;
  /** Notes a failure. Returns the milliseconds until the retry. */
  readonly failed: (kind: SweepKind) => number;
  /** Milliseconds until the next sweep is due. */
  readonly waitMs: () => number;
  readonly clear: () => void;
}

export function createAgenda(clock = (): number => performance.now()): Agenda {
  const dueAt = new Map<SweepKind, number>();
  const lastAt = new Map<SweepKind, number>();
  const failures = new Map<SweepKind, number>();
  const set: Agenda['set'] = (kind, inMs) => {
    // a failed sweep keeps its pause, even if the ticks ask for it
    if (failures.has(kind)) return;
    if (inMs === null) {
      dueAt.delete(kind);
      return;
    }
    const earliest = (lastAt.get(kind) ?? -Infinity) + everyMs[kind];
    dueAt.set(kind, Math.max(earliest, clock() + inMs));
  };
  return {
    set,
    due: (kind) => (dueAt.get(kind) ?? Infinity) <= clock(),
    begin: (kind) => {
      dueAt.delete(kind);
      lastAt.set(kind, clock());
    },
    done: (kind, again) => {
      failures.delete(kind);
      // set during the sweep, for something that has changed since it looked
      const asked = dueAt.get(kind) ?? Infinity;
      if (again !== undefined) set(kind, again);
      if (again === 0) dueAt.set(kind, clock());
      else if (asked < (dueAt.get(kind) ?? -Infinity)) dueAt.set(kind, asked);
    },
    failed: (kind) => {
      const count = (failures.get(kind) ?? 0) + 1;
      failures.set(kind, count);
      const retryMs = retryPauseMs(count);
      dueAt.set(kind, clock() + retryMs);
      return retryMs;
    },
    waitMs: () => Math.ceil(Math.min(idleMs, Math.max(0, Math.min(...dueAt.values()) - clock()))),
    clear: () => {
      for (const map of [dueAt, lastAt, failures]) map.clear();
    },
  };
}
