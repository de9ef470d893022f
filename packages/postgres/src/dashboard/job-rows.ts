import type { JobStatus } from '@pgqueue/core';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { AttemptError } from '../connection/tables.ts';

/** A job in a list. */
export interface ListedJob {
  readonly id: string;
  readonly status: JobStatus;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  readonly tries: number;
  readonly maxTries: number | null;
  readonly crashes: number;
  readonly created: Date;
  readonly ageMs: number;
  readonly runAfter: Date | null;
  readonly node: string | null;
  readonly started: Date | null;
  readonly finished: Date | null;
  /** 200 characters at most. */
  readonly lastError: string | null;
}

/** These jobs, newest first; those that are gone are left out, one that stands twice is where it has not ended. */
export async function readListed(
  { kysely }: Database,
  ids: readonly string[],
): Promise<readonly ListedJob[]> {
  if (ids.length === 0) return [];
  const rows = await kysely
    .selectFrom('job')
    .select(['id', 'status', 'queue', 'task', 'key', 'priority', 'tries', 'max_tries as maxTries', 'crashes'])
    .select(['created', 'run_after as runAfter', 'node', 'started', 'finished'])
    .select([
      sql<number>`extract(epoch from clock_timestamp() - created)::float8 * 1000`.as('ageMs'),
      sql<string | null>`left(last_error ->> 'message', 200)`.as('lastError'),
    ])
    .where('id', '=', sql<string>`any (${ids}::uuid[])`)
    .orderBy('id', 'desc')
    .orderBy(sql`finished desc nulls first`)
    .execute();
  return rows.filter((row, index) => rows[index - 1]?.id !== row.id);
}

/** Every failed attempt of a job, oldest first, at most the newest 100. */
export async function readErrors({ kysely }: Database, id: string): Promise<readonly AttemptError[]> {
  const row = await kysely
    .selectFrom('job')
    .select('errors')
    .where('id', '=', id)
    .orderBy(sql`finished nulls first`)
    .limit(1)
    .executeTakeFirst();
  return row?.errors ?? [];
}

/** The payloads of jobs, to see whether a redacted one still has what was looked for. */
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

/** How waiting jobs stand before they are changed, so that it can be undone. */
export interface Before {
  readonly id: string;
  readonly priority: number;
  readonly runAfter: Date | null;
}

/** Of these, the jobs that wait. */
export async function readBefore(
  { query, schema }: Database,
  ids: readonly string[],
): Promise<readonly Before[]> {
  return query<Before>(
    `select id, priority, run_after as "runAfter" from ${schema}.queue where id = any ($1::uuid[])`,
    [ids],
  );
}

/** When its work item was written; undefined: it has none. */
export async function readDispatched({ query, schema }: Database, id: string): Promise<Date | undefined> {
  const [row] = await query<{ dispatched: Date | null }>(
    `select dispatched from ${schema}.work_item where id = $1::uuid`,
    [id],
  );
  return row?.dispatched ?? undefined;
}
