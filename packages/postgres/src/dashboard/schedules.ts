import type { Database } from '../connection/database.ts';

/** A recurring job. */
export interface StoredSchedule {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly task: string;
  /** Null if it was not read. */
  readonly payload: unknown;
  readonly options: unknown;
  readonly paused: boolean;
  readonly next: Date | null;
  readonly last: Date | null;
}

/**
 * Reads up to `max` schedules whose names contain `part`, by name. `whole`: also their payloads and options, which not
 * every role may read.
 */
export async function readSchedules(
  { query, schema }: Database,
  { part, max, whole }: { readonly part: string; readonly max: number; readonly whole: boolean },
): Promise<{ readonly now: Date; readonly schedules: readonly StoredSchedule[] }> {
  const columns =
    's.name, s.cron, s.timezone, s.task, s.paused, s.next_slot as "next", s.last_slot as "last"';
  const documents = whole ? 's.payload, s.options' : 'null::jsonb as payload, null::jsonb as options';
  const rows = await query<StoredSchedule & { readonly now: Date }>(
    `select ${columns}, ${documents}, clock_timestamp() as now from ${schema}.schedule s
     where position(lower($2) in lower(s.name)) > 0 order by s.name limit $1`,
    [max, part],
  );
  return {
    now: rows[0]?.now ?? new Date(),
    schedules: rows.map(({ now: _now, ...schedule }) => schedule),
  };
}

/** Reports whether a schedule is paused; undefined: there is none of this name. */
export async function readPaused({ query, schema }: Database, name: string): Promise<boolean | undefined> {
  const [row] = await query<{ paused: boolean }>(
    `select s.paused from ${schema}.schedule s where s.name = $1`,
    [name],
  );
  return row?.paused;
}
