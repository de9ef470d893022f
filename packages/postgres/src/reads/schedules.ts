import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';

/** A recurring job, with its last and its next slot. */
export interface ScheduleInfo {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly task: string;
  readonly payload: unknown;
  readonly options: unknown;
  readonly paused: boolean;
  /** Null until a leading scheduler has planned it. */
  readonly nextSlot: Date | null;
  /** Time until the next slot, by the database's clock; negative if it is overdue. */
  readonly nextInMs: number | null;
  readonly lastSlot: Date | null;
}

/** Lists every schedule, by name. */
export async function listSchedules({ kysely }: Database): Promise<readonly ScheduleInfo[]> {
  const rows = await kysely
    .selectFrom('schedule')
    .select(['name', 'cron', 'timezone', 'task', 'payload', 'options', 'paused'])
    .select(['next_slot as nextSlot', 'last_slot as lastSlot'])
    .select(
      sql<number | null>`extract(epoch from next_slot - clock_timestamp())::float8 * 1000`.as('nextInMs'),
    )
    .orderBy('name')
    .execute();
  return rows;
}
