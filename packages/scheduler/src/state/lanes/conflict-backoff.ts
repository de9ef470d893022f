import type { LaneJob } from '@pgqueue/postgres/internal';

/**
 * Backoff for jobs that a plan took but could not write, because an application's transaction locks their
 * rows or changed them. Plans leave such a job out for a while; otherwise it would take a slot from others in
 * every tick while that transaction is open.
 */
export interface Refusals {
  readonly note: (id: string, rowVersion: string, nowMs: number) => void;
  readonly leavesOut: (job: Pick<LaneJob, 'id' | 'rowVersion'>, nowMs: number) => boolean;
}

/** First and longest pause in milliseconds, and the most jobs remembered. */
const pauseMs = 100;
const pauseMaxMs = 2_000;
const refusedMax = 20_000;

interface Refusal {
  readonly rowVersion: string;
  readonly pauseMs: number;
  readonly untilMs: number;
}

export function createRefusals(): Refusals {
  const refused = new Map<string, Refusal>();
  return {
    note: (id, rowVersion, nowMs) => {
      const last = refused.get(id);
      const pause = last?.rowVersion === rowVersion ? Math.min(pauseMaxMs, 2 * last.pauseMs) : pauseMs;
      refused.delete(id);
      refused.set(id, { rowVersion, pauseMs: pause, untilMs: nowMs + pause });
      for (const oldest of refused.keys()) {
        if (refused.size <= refusedMax) break;
        refused.delete(oldest);
      }
    },
    leavesOut: ({ id, rowVersion }, nowMs) => {
      const refusal = refused.get(id);
      if (refusal === undefined) return false;
      // the job was changed and may go, or its last pause was long ago
      if (refusal.rowVersion !== rowVersion || nowMs > refusal.untilMs + 2 * pauseMaxMs) {
        refused.delete(id);
        return false;
      }
      return nowMs < refusal.untilMs;
    },
  };
}
