import { retryPauseMs, startLoop } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { Leader } from '@pgqueue/postgres/internal';
import { leadershipLostState, sqlState } from '@pgqueue/postgres/internal';
import type { Settings } from '../options.ts';
import { advanceOnce, createFlowMemory, stopOnce } from './advance.ts';

/** Moves flows on, beside the ticks. Runs no query where no flow was ever started. */
export interface FlowLoop {
  /**
   * Call with what a tick saw: a number that grows when flows are started and when their
   * jobs end, before the commit; 0: no flow was ever started; null: not read.
   */
  readonly seen: (tallies: number | null) => void;
  /** Call when jobs have ended: some may belong to flows. */
  readonly jobsEnded: () => void;
  /** Call when a flow was changed from outside. */
  readonly wake: () => void;
  /** Call when a term begins. */
  readonly elected: () => void;
  readonly stuckMs: () => number;
  readonly stop: () => Promise<void>;
}

/**
 * Pause where there are no flows, and the longest ones while none is open and while some are, in
 * milliseconds. A tick sees the number of a flow that starts before the start commits, and not again, so the
 * loop looks for itself. After a call that looked for no late commits, one that does comes sooner.
 */
const [idleMs, closedMs, openMs] = [3_600_000, 750, 500];
/**
 * Pause after calls that changed nothing, as a multiple of the last one's duration, and the number of such calls in
 * a row that have no pause. While a step of 100,000 jobs is worked off, every hint of ended jobs would call, and
 * take a fifth of the work's own time; in a chain, every other call changes something. Up to `restMaxMs`, since the
 * step behind waits for it.
 */
const [restShare, restAfter, restMaxMs] = [4, 3, 15];
/** Pause between two tries to cancel jobs that are being claimed or settled, in milliseconds. */
const stopPauseMs = 20;

export function startFlowLoop({
  database,
  settings: { observe },
  term,
  lost,
  onWork,
}: {
  readonly database: Database;
  readonly settings: Settings;
  readonly term: () => Leader | undefined;
  readonly lost: (epoch: number) => void;
  /** Called when jobs were enqueued or cancelled. */
  readonly onWork: () => void;
}): FlowLoop {
  let memory = createFlowMemory();
  let leader: Leader | undefined;
  let open = false;
  let seenTallies = 0;
  let [unchanged, restsUntil] = [0, 0];
  const loop = startLoop({
    step: async () => {
      leader = term();
      if (leader === undefined) return idleMs;
      const beganAt = performance.now();
      if (beganAt < restsUntil) return restsUntil - beganAt;
      const {
        put,
        more,
        stops,
        dueMs,
        ended,
        open: stillOpen,
      } = await advanceOnce(database, leader, { memory, observe });
      open = stillOpen;
      unchanged = put === 0 && ended.length === 0 && !more ? unchanged + 1 : 0;
      const endedAt = performance.now();
      if (unchanged >= restAfter) restsUntil = endedAt + Math.min(restMaxMs, restShare * (endedAt - beganAt));
      if (put > 0) onWork();
      if (more) return 0;
      if (stops) {
        const stopped = await stopOnce(database, leader);
        if (stopped) onWork();
        return stopped ? 0 : stopPauseMs;
      }
      const pauseMs = open ? openMs : seenTallies > 0 ? closedMs : idleMs;
      const lateMs = memory.ahead ? memory.shortAt - endedAt : idleMs;
      return Math.max(0, Math.min(dueMs ?? idleMs, pauseMs, lateMs));
    },
    failed: (error, failures) => {
      if (sqlState(error) === leadershipLostState) {
        if (leader !== undefined) lost(leader.epoch);
        return idleMs;
      }
      const retryMs = retryPauseMs(failures);
      observe({ type: 'database.error', during: 'flows', error, retryMs });
      return retryMs;
    },
  });
  return {
    seen: (tallies) => {
      if (tallies === null || tallies === seenTallies) return;
      seenTallies = tallies;
      open = true;
      loop.wake();
    },
    jobsEnded: () => {
      if (open) loop.wake();
    },
    wake: loop.wake,
    elected: () => {
      memory = createFlowMemory();
      open = true;
      loop.wake();
    },
    stuckMs: loop.stuckMs,
    stop: loop.stop,
  };
}
