import type { Database } from '../connection/database.ts';

/** A recurring job, with its last and its next slot. */
export interface ScheduleInfo {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly task: string;
  /** Null if it was not read. */
  readonly payload: unknown;
  readonly options: unknown;
  readonly paused: boolean;
  /** Null until a leading scheduler has planned it. */
  readonly nextSlot: Date | null;
  /** Time until the next slot, by the database's clock; negative if it is overdue. */
  readonly nextInMs: number | null;
  readonly lastSlot: Date | null;
}

/**
 * Lists schedules whose names contain `part`, by name. `max`: null for all. `whole`: also their payloads and options,
 * which not every role may read.
 */
export function listSchedules(
  { query, schema }: Database,
  {
    part = '',
    max,
    whole,
  }: { readonly part?: string; readonly max: number | null; readonly whole: boolean } = {
    max: null,
    whole: true,
  },
): Promise<readonly ScheduleInfo[]> {
  const documents = whole ? 's.payload, s.options' : 'null::jsonb as payload, null::jsonb as options';
  return query<ScheduleInfo>(
    `select s.name, s.cron, s.timezone, s.task, ${documents}, s.paused, s.next_slot as "nextSlot", s.last_slot as "lastSlot",
            extract(epoch from s.next_slot - clock_timestamp())::float8 * 1000 as "nextInMs"
     from ${schema}.schedule s where position(lower($2) in lower(s.name)) > 0 order by s.name limit $1`,
    [max, part],
  );
}

/** Reports whether a schedule is paused; undefined: there is none of this name. */
export async function readPaused({ query, schema }: Database, name: string): Promise<boolean | undefined> {
  const [row] = await query<{ paused: boolean }>(
    `select s.paused from ${schema}.schedule s where s.name = $1`,
    [name],
  );
  return row?.paused;
}
