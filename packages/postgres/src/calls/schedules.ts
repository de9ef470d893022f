import { PgQueueError } from '@pgqueue/core';
import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';
import type { Leader } from './sweeps.ts';

/** A schedule as a row. `payload` and `options` are JSON texts; `enqueue_scheduled` reads the options. */
export interface ScheduleRow {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly task: string;
  readonly payload: string;
  readonly options: string;
}

/**
 * Creates or changes a schedule. After a change of its time the leader plans it anew; otherwise its next slot
 * and a pause stay. One that failed is tried again at once.
 */
export async function setSchedule(target: Target, row: ScheduleRow): Promise<'created' | 'changed'> {
  const [written] = await target.query<{ created: boolean }>(
    `insert into ${target.schema}.schedule as s (name, cron, timezone, task, payload, options)
     values ($1, $2, $3, $4, $5::jsonb, $6::jsonb)
     on conflict (name) do update
     set cron = excluded.cron, timezone = excluded.timezone, task = excluded.task, payload = excluded.payload,
         options = excluded.options, updated = clock_timestamp(), retry_after = null,
         next_slot = case when (s.cron, s.timezone) = (excluded.cron, excluded.timezone) then s.next_slot end,
         since = case when (s.cron, s.timezone) = (excluded.cron, excluded.timezone) then s.since else clock_timestamp() end
     returning xmax = 0 as created`,
    [row.name, row.cron, row.timezone, row.task, row.payload, row.options],
  );
  return written?.created === true ? 'created' : 'changed';
}

/**
 * Pauses or resumes a schedule. No slot is enqueued while it is paused, and slots that pass meanwhile are not
 * made up for. False: there is no such schedule.
 */
export async function pauseSchedule(target: Target, name: string, paused: boolean): Promise<boolean> {
  const rows = await target.query(
    `update ${target.schema}.schedule
     set paused = $2, next_slot = case when paused and not $2 then null else next_slot end,
         since = case when paused and not $2 then clock_timestamp() else since end, retry_after = null,
         updated = clock_timestamp()
     where name = $1 returning 1`,
    [name, paused],
  );
  return rows.length > 0;
}

/** Removes a schedule; jobs that it enqueued stay. False: there is no such schedule. */
export async function removeSchedule(target: Target, name: string): Promise<boolean> {
  const rows = await target.query(`delete from ${target.schema}.schedule where name = $1 returning 1`, [
    name,
  ]);
  return rows.length > 0;
}

/** Enqueues the schedule's job, for no slot. Undefined: there is no such schedule. */
export function runSchedule(target: Target, name: string): Promise<string | undefined> {
  return ask(target, 'enqueue_scheduled($1)', [name]);
}

/** A schedule with a slot to enqueue, or without a planned slot. */
export interface DueSchedule {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  /** Unix ms from which its slots are due: its next slot, or the time when it was set if none is planned yet. */
  readonly fromMs: number;
  readonly nowMs: number;
}

/**
 * Reads schedules that are not planned yet, or due, without those that failed lately: 1,000 at most, the longest overdue
 * first, so that each has its turn where more become due than can be enqueued.
 */
export async function dueSchedules(target: Target): Promise<readonly DueSchedule[]> {
  return target.query<DueSchedule>(
    `select name, cron, timezone, extract(epoch from coalesce(next_slot, since))::float8 * 1000 as "fromMs",
            extract(epoch from clock_timestamp())::float8 * 1000 as "nowMs"
     from ${target.schema}.schedule
     where not paused and (next_slot is null or next_slot <= clock_timestamp())
       and (retry_after is null or retry_after <= clock_timestamp())
     order by next_slot nulls first, name limit 1000`,
    [],
  );
}

/** Answer of {@link fireSchedule}. */
export interface Fired {
  readonly job: string | null;
  readonly refused: string | null;
}

/**
 * Enqueues one slot of a schedule, once however many leaders try, and stores the next. Resolves to the job's id; null: none
 * was enqueued. `refused`: the queue takes no more jobs of the key, says why, and the slot is left out. Does nothing if the schedule was
 * changed or paused since it was read, or is locked: it stays due. With `slotMs` and `nextMs` null the slot stays due:
 * the schedule failed, and is tried again at `retryMs`.
 */
export async function fireSchedule(
  target: Target,
  { leader, epoch }: Leader,
  {
    name,
    cron,
    timezone,
    slotMs,
    nextMs,
    retryMs,
  }: Pick<DueSchedule, 'name' | 'cron' | 'timezone'> & {
    readonly slotMs: number | null;
    readonly nextMs: number | null;
    readonly retryMs?: number;
  },
): Promise<Fired> {
  const at = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
  const read = { name, cron, timezone, next: at(nextMs), slot: at(slotMs), retry: at(retryMs ?? null) };
  const [fired] = await target.query<Fired>(
    `select f.job, f.refused from ${target.schema}.fire_schedule($1, $2, $3) f`,
    [leader, epoch, JSON.stringify(read)],
  );
  if (fired === undefined) throw new PgQueueError('invariant', `no answer for schedule ${name}`);
  return fired;
}
