import type { Observer } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import type { DueSchedule, Leader } from '@pgqueue/postgres/internal';
import {
  dueSchedules,
  fireSchedule,
  isTransient,
  latestSlot,
  leadershipLostState,
  nextSlot,
  sqlState,
} from '@pgqueue/postgres/internal';

/** Pause before a schedule that failed is tried again, in milliseconds. One that is set is tried at once. */
const failedMs = 60_000;
/** Stands for "never again" (a cron expression with a past year). */
const never = Date.UTC(9999, 11, 31);

/**
 * Enqueues the due slot of each schedule (`fire_schedule` in schedule.sql makes it a job), and plans the next
 * one. A slot becomes at most one job even if the leader changes, because the schedule's row names the last. If several slots
 * were missed, only the latest is made up for. If the queue rejects a slot (`key_pending`), the slot is skipped and
 * reported. A schedule that fails keeps its slot, and does not stop the others; one that a transaction has locked
 * waits for a later sweep. Ends early if `signal` is aborted. Resolves to the number of jobs enqueued.
 */
export async function fireDue(
  database: Database,
  leader: Leader,
  { observe, signal }: { readonly observe: Observer; readonly signal: AbortSignal | undefined },
): Promise<number> {
  let fired = 0;
  for (const schedule of await dueSchedules(database)) {
    if (signal?.aborted === true) break;
    try {
      const { slotMs, ...plan } = planOf(schedule);
      const { job, refused } = await fireSchedule(database, leader, { ...plan, slotMs });
      if (refused !== null && slotMs !== null) {
        const error = new PgQueueError('too_many_pending', refused);
        observe({ type: 'schedule.skipped', schedule: schedule.name, slotMs, error });
      }
      if (job === null) continue;
      fired += 1;
      observe({ type: 'schedule.fired', schedule: schedule.name, job });
    } catch (error) {
      if (sqlState(error) === leadershipLostState || isTransient(error)) throw error;
      observe({ type: 'schedule.failed', schedule: schedule.name, error });
      const retryMs = schedule.nowMs + failedMs;
      await fireSchedule(database, leader, { ...schedule, slotMs: null, nextMs: null, retryMs });
    }
  }
  return fired;
}

type CronPlan = Parameters<typeof fireSchedule>[2];

function planOf({ name, cron, timezone, fromMs, nowMs }: DueSchedule): CronPlan {
  const slotMs = latestSlot(cron, timezone, { fromMs, toMs: nowMs });
  return { name, cron, timezone, slotMs, nextMs: nextSlot(cron, timezone, nowMs) ?? never };
}
