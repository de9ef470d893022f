import type { Attributes, JobStatus, TraceContext } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { isUuid, jobStatuses } from '@pgqueue/core/internal';
import type { RawBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { AttemptError } from '../connection/tables.ts';
import type { FindFilter, JobTable } from './job-sources.ts';
import { allOf, conditionsOf, isOfFlow, rowsOf, tablesOf } from './job-sources.ts';
import type { Page } from './page.ts';
import { badCursor, checkLimit, checkTexts, pageOf } from './page.ts';

/** A job in listings: everything but its payload, its result and its older errors. */
export interface JobSummary {
  readonly id: string;
  readonly status: JobStatus;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  readonly attributes: Attributes;
  readonly tries: number;
  /** Null once the job is in HISTORY, like the other limits. */
  readonly maxTries: number | null;
  readonly crashes: number;
  readonly maxCrashes: number | null;
  readonly created: Date;
  /** Time since it was created, in milliseconds, by the database's clock. */
  readonly ageMs: number;
  readonly runAfter: Date | null;
  readonly expiresAt: Date | null;
  readonly timeoutMs: number | null;
  readonly uniqueKey: string | null;
  readonly payloadVersion: number;
  readonly trace: TraceContext | null;
  /** Position of its work item in the dispatch order; null if it has none. */
  readonly position: number | null;
  readonly pool: string | null;
  /** Node that runs it, or ran it last. */
  readonly node: string | null;
  readonly started: Date | null;
  readonly leaseEnds: Date | null;
  /** Time at which its cancellation was requested, while it runs. */
  readonly cancelAsked: Date | null;
  readonly progress: unknown;
  /** An attempt kept resume data for the next one. */
  readonly hasCheckpoint: boolean;
  /** Was lost with its node before, so it begins on a node that holds nothing else. */
  readonly suspect: boolean;
  readonly finished: Date | null;
  /** Reason of its death: `max_tries`, `crash_limit` or `gave_up`. */
  readonly reason: string | null;
  readonly lastError: AttemptError | null;
  /** The flow that it belongs to. */
  readonly flow: string | null;
  /** Name of its step in the flow; also null if the flow is no longer kept. */
  readonly step: string | null;
}

/** One job with its payload, result, checkpoint and errors. */
export interface JobDetails extends JobSummary {
  readonly payload: unknown;
  readonly result: unknown;
  /** Resume data that an attempt kept for the next one; null: none. */
  readonly checkpoint: unknown;
  /** Failed attempts, oldest first: the newest 100 at most. */
  readonly errors: readonly AttemptError[];
}

/** A filter of jobs: a job must match every given field. */
export interface JobFilter {
  readonly status?: JobStatus;
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  /** Id of a flow. */
  readonly flow?: string;
  /** Name of a step of that flow. */
  readonly step?: string;
}

/** One page of the jobs that match a filter. */
export interface JobListOptions extends JobFilter {
  /** The `next` of the previous page. */
  readonly after?: string;
  /** 1 to 1000. Default 50. */
  readonly limit?: number;
}

/**
 * Lists jobs, newest first, which is the order of their ids (UUID v7). Each table is read backwards along its
 * index on id, and the read stops at the page's end; only the page's jobs are then looked up in the view. A
 * job that moves between tables meanwhile keeps its id, and so its place. Jobs of a flow are found by the
 * indexes on flow and step, and sorted.
 */
export async function listJobs(database: Database, options: JobListOptions = {}): Promise<Page<JobSummary>> {
  const { after, limit = 50, status, queue, task, key, flow, step } = options;
  checkLimit(limit);
  checkTexts({ queue, task, key, flow, step });
  if (status !== undefined && !jobStatuses.includes(status)) {
    throw new PgQueueError('configuration', `status must be one of ${jobStatuses.join(', ')}`);
  }
  if (flow !== undefined && !isUuid(flow)) {
    throw new PgQueueError(
      'configuration',
      `flow must be the UUID of a flow, not ${JSON.stringify(flow.slice(0, 40))}`,
    );
  }
  if (step !== undefined && flow === undefined)
    throw new PgQueueError('configuration', 'a step is of a flow: give the flow, too');
  if (after !== undefined && !isUuid(after)) throw badCursor(after);
  const filter = { status, queue, task, key, flow: flow === undefined ? undefined : { id: flow, step } };
  const parts = tablesOf(status).map(
    (table) => sql`(select t.id from (${candidates(database, table, filter)}) t
      where ${allOf(conditionsOf(database, { ...filter, after }))} order by t.id desc limit ${limit + 1})`,
  );
  const ids = sql`array(
    select id from (${sql.join(parts, sql` union all `)}) parts order by id desc limit ${limit + 1})`;
  const { schema, kysely } = database;
  const { rows } = await sql<JobSummary>`
    select ${sql.raw(summaryColumns(schema))} from ${sql.table(`${schema}.job`)} j
    where j.id = any (${ids}) order by j.id desc`.execute(kysely);
  return pageOf(rows, limit, { toItem: (row) => row, cursor: ({ id }) => id });
}

/**
 * Returns SQL for the rows of a table that may match, as far as an index leads to them. The fence (`offset 0`)
 * keeps the planner from walking the index on id past all jobs of other flows.
 */
function candidates(database: Database, table: JobTable, filter: FindFilter): RawBuilder<unknown> {
  const { status, flow } = filter;
  const parts = [
    ...(flow === undefined ? [] : [isOfFlow(database, flow)]),
    ...(status === 'delayed' ? [sql`t.run_after is not null`] : []),
    ...(status === 'pending' ? [sql`t.run_after is null`] : []),
  ];
  return sql`${rowsOf(database, table, filter)} where ${allOf(parts)} ${flow === undefined ? sql`` : sql`offset 0`}`;
}

/** Reads a job without its payload and result, for callers that may not see them. */
export async function readSummary({ query, schema }: Database, id: string): Promise<JobSummary | undefined> {
  if (!isUuid(id)) return undefined;
  const [row] = await query<JobSummary>(
    `select ${summaryColumns(schema)} from ${schema}.job j where j.id = $1::uuid order by j.finished nulls first limit 1`,
    [id],
  );
  return row;
}

/**
 * Reads the statuses of jobs; ids of unknown jobs are left out. If a job is in two tables, its unfinished row
 * comes last.
 */
export async function readStatuses(
  { query, schema }: Database,
  ids: readonly string[],
): Promise<readonly { readonly id: string; readonly status: JobStatus }[]> {
  return query(
    `select j.id, j.status from ${schema}.job j where j.id = any ($1::uuid[]) order by j.finished desc nulls last`,
    [ids],
  );
}

/**
 * Reads one job. Returns undefined if it never was, was erased, or its history has been dropped. If the job
 * is in two tables, the unfinished row counts.
 */
export async function readJob({ query, schema }: Database, id: string): Promise<JobDetails | undefined> {
  if (!isUuid(id)) return undefined;
  const [row] = await query<JobDetails>(
    `select ${summaryColumns(schema)}, p.payload, p.result, p.checkpoint, coalesce(j.errors, '[]') as errors
     from ${schema}.job j
     left join lateral (
       select q.payload, null::jsonb as result, q.checkpoint from ${schema}.queue q where q.id = j.id and j.finished is null
       union all
       select (o.job -> 'payload')::jsonb, null, (o.job -> 'checkpoint')::jsonb from ${schema}.handover o
       where o.id = j.id and j.finished is null
       union all
       select d.payload, null, d.checkpoint from ${schema}.dead_letter d where d.id = j.id and j.status = 'dead'
       union all
       select h.payload, h.result, null from ${schema}.history h
       where h.id = j.id and h.finished = j.finished and j.status <> 'dead') p on true
     where j.id = $1::uuid
     order by j.finished nulls first limit 1`,
    [id],
  );
  return row;
}

/** Returns the columns of {@link JobSummary}, of the view `job j`. */
function summaryColumns(schema: string): string {
  return `j.id, j.status, j.queue, j.task, j.key, j.priority, j.attributes, j.tries, j.max_tries as "maxTries", j.crashes,
    j.max_crashes as "maxCrashes", j.created, (extract(epoch from clock_timestamp()) - extract(epoch from j.created))::float8 * 1000 as "ageMs",
    j.run_after as "runAfter", j.expires_at as "expiresAt", extract(epoch from j.timeout)::float8 * 1000 as "timeoutMs",
    j.unique_key as "uniqueKey", j.payload_version as "payloadVersion", j.trace, j.position::float8 as position, j.pool, j.node,
    j.started, j.lock_timeout as "leaseEnds", j.cancelled as "cancelAsked", j.progress, j.has_checkpoint as "hasCheckpoint",
    j.suspect, j.finished, j.reason, j.last_error as "lastError", j.flow,
    (select s.name from ${schema}.flow_step s where s.flow = j.flow and s.step = j.step) as step`;
}
