import { nextSlot, scheduleProblems } from '@pgqueue/postgres/internal';
import type { ScheduleInfo } from '@pgqueue/postgres';
import { listSchedules, readClock } from '@pgqueue/postgres/internal/dashboard';
import type { ScheduleRow, Schedules } from '../contract.ts';
import type { Desk, Office } from '../desk.ts';
import { seesPayloads } from '../desk.ts';
import type { Parameters } from '../http/parameters.ts';
import { redacted } from './redacted.ts';
import { timeOf } from './wire.ts';

const schedulesMax = 500;
const upcomingMax = 5;

export async function schedulesPage({ settings }: Office, desk: Desk, query: Parameters): Promise<Schedules> {
  const part = query.text('name', 200) ?? '';
  query.done();
  const wanted = { part, max: schedulesMax + 1, whole: seesPayloads(desk) };
  const [now, schedules] = await Promise.all([
    readClock(desk.database),
    listSchedules(desk.database, wanted),
  ]);
  const rows = schedules.slice(0, schedulesMax).map((schedule): ScheduleRow => {
    const { name, cron, timezone, task, paused, options, nextSlot: next, lastSlot: last } = schedule;
    const problems = scheduleProblems(cron, timezone, now.getTime());
    const { queue, key } = textsIn(options);
    const shown = { kind: 'payload', id: name, task, queue, key } as const;
    return {
      name,
      cron,
      timezone,
      task,
      payload: redacted(settings, schedule.payload, shown) ?? null,
      options: options ?? null,
      paused,
      next: timeOf(next),
      upcoming: paused || problems.length > 0 ? [] : upcomingOf(schedule, now),
      last: timeOf(last),
      problem: problems.length > 0 ? problems.join('; ') : null,
    };
  });
  return { at: timeOf(now), schedules: rows, more: schedules.length > schedulesMax };
}

function textsIn(options: unknown): { readonly queue: string; readonly key: string } {
  const { queue, key } = (options ?? {}) as Readonly<Record<string, unknown>>;
  return {
    queue: typeof queue === 'string' ? queue : 'default',
    key: typeof key === 'string' ? key : '',
  };
}

function upcomingOf({ cron, timezone }: ScheduleInfo, now: Date): readonly string[] {
  const slots: string[] = [];
  let at: number | null = now.getTime();
  while (slots.length < upcomingMax) {
    at = nextSlot(cron, timezone, at);
    if (at === null) break;
    slots.push(new Date(at).toISOString());
  }
  return slots;
}
