import type { Database } from '../connection/database.ts';
import type { AttemptError } from '../connection/tables.ts';
import type { JobSummary } from '../reads/jobs.ts';

/** A job in a list. */
export interface ListedJob
  extends
    Pick<
      JobSummary,
      'id' | 'status' | 'queue' | 'task' | 'key' | 'priority' | 'tries' | 'maxTries' | 'crashes'
    >,
    Pick<JobSummary, 'created' | 'ageMs' | 'runAfter' | 'node' | 'started' | 'finished'> {
  /** Up to 200 characters. */
  readonly lastError: string | null;
}

/**
 * Reads jobs, newest first. Unknown jobs are left out. If a job is in two tables, the unfinished row counts.
 */
export async function readListed(
  { query, schema }: Database,
  ids: readonly string[],
): Promise<readonly ListedJob[]> {
  if (ids.length === 0) return [];
  const rows = await query<ListedJob>(
    `select j.id, j.status, j.queue, j.task, j.key, j.priority, j.tries, j.max_tries as "maxTries", j.crashes, j.created,
            (extract(epoch from clock_timestamp()) - extract(epoch from j.created))::float8 * 1000 as "ageMs", j.run_after as "runAfter", j.node,
            j.started, j.finished, left(j.last_error ->> 'message', 200) as "lastError"
     from ${schema}.job j where j.id = any ($1::uuid[]) order by j.id desc, j.finished desc nulls first`,
    [ids],
  );
  return rows.filter((row, index) => rows[index - 1]?.id !== row.id);
}

/** Reads the failed attempts of a job, oldest first: the newest 100 at most. */
export async function readErrors({ query, schema }: Database, id: string): Promise<readonly AttemptError[]> {
  const [row] = await query<{ errors: readonly AttemptError[] | null }>(
    `select j.errors from ${schema}.job j where j.id = $1::uuid order by j.finished nulls first limit 1`,
    [id],
  );
  return row?.errors ?? [];
}

/** Reads the payloads of jobs, to check whether a redacted one still matches the search. */
export async function readPayloads(
  { query, schema }: Database,
  ids: readonly string[],
): Promise<ReadonlyMap<string, unknown>> {
  const rows = await query<{ id: string; payload: unknown }>(
    `select id, payload from ${schema}.queue where id = any ($1::uuid[])
     union all select id, payload from ${schema}.dead_letter where id = any ($1::uuid[])
     union all select id, payload from ${schema}.history where id = any ($1::uuid[])`,
    [ids],
  );
  return new Map(rows.map(({ id, payload }) => [id, payload]));
}

/** Priority and earliest start of a job before a change, so that the change can be undone. */
export interface Before {
  readonly id: string;
  readonly priority: number;
  readonly runAfter: Date | null;
}

/** Reads priority and earliest start of those of the given jobs that are in QUEUE. */
export async function readBefore(
  { query, schema }: Database,
  ids: readonly string[],
): Promise<readonly Before[]> {
  return query<Before>(
    `select id, priority, run_after as "runAfter" from ${schema}.queue where id = any ($1::uuid[])`,
    [ids],
  );
}

/** Returns the time at which its work item was written; undefined if it has none. */
export async function readDispatched({ query, schema }: Database, id: string): Promise<Date | undefined> {
  const [row] = await query<{ dispatched: Date | null }>(
    `select dispatched from ${schema}.work_item where id = $1::uuid`,
    [id],
  );
  return row?.dispatched ?? undefined;
}
