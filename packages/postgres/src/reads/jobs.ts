import type { Attributes, JobStatus, TraceContext } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { isUuid, jobStatuses, unreachable } from '@pgqueue/core/internal';
import type { AliasedExpression, SelectQueryBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { AttemptError, QueueTable, Tables } from '../connection/tables.ts';
import type { Page } from './page.ts';
import { hasItem } from './items.ts';
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
  const parts = tablesOf(options.status).map(
    (table) => sql`(${idsIn(database, table, options).limit(limit + 1)})`,
  );
  const ids = sql`array(
    select id from (${sql.join(parts, sql` union all `)}) parts order by id desc limit ${limit + 1})`;
  const { schema, kysely } = database;
  const { rows } = await sql<JobSummary>`
    select ${sql.raw(summaryColumns(schema))} from ${sql.table(`${schema}.job`)} j
    where j.id = any (${ids}) order by j.id desc`.execute(kysely);
  return pageOf(rows, limit, { toItem: (row) => row, cursor: ({ id }) => id });
}

export type JobTable = 'queue' | 'work_item' | 'dead_letter' | 'history';

/**
 * Returns the tables that hold jobs of a status. Ready and running jobs are found by the work items, which
 * are few.
 */
export function tablesOf(status: JobStatus | undefined): readonly JobTable[] {
  switch (status) {
    case undefined:
      return ['queue', 'dead_letter', 'history'];
    case 'delayed':
    case 'pending':
      return ['queue'];
    case 'ready':
    case 'running':
      return ['work_item'];
    case 'dead':
      return ['dead_letter'];
    case 'done':
    case 'cancelled':
    case 'expired':
      return ['history'];
    default:
      return unreachable(status);
  }
}

/** Selects the ids that match the filter in one table, newest first. */
function idsIn(
  database: Database,
  table: JobTable,
  { status, after, flow, step, ...wanted }: JobListOptions,
): SelectQueryBuilder<Tables, keyof Tables, { id: string }> {
  const { kysely, schema } = database;
  const isItem = table === 'work_item';
  const home = isItem ? 'queue' : table;
  let query = kysely
    // each has the columns that are used
    .selectFrom(
      (flow === undefined
        ? `${home} as t`
        : ofFlow(database, home, { flow, step })) as unknown as 'queue as t',
    )
    .select('t.id')
    .orderBy('t.id', 'desc');
  for (const column of ['queue', 'task', 'key'] as const) {
    const value = wanted[column];
    if (value !== undefined) query = query.where(`t.${column}`, '=', value);
  }
  if (after !== undefined) query = query.where('t.id', '<', after);
  if (isItem) {
    query = query.where('t.id', 'in', (items) =>
      items
        .selectFrom('work_item')
        .select('work_item.id')
        .where('lock_key', status === 'ready' ? 'is' : 'is not', null),
    );
  } else if (table === 'queue' && status !== undefined) {
    query = query
      .where('t.run_after', status === 'delayed' ? 'is not' : 'is', null)
      .where(sql<boolean>`not ${sql.raw(hasItem(schema, { id: 't.id' }))}`);
  } else if (table === 'history' && status !== undefined) {
    query = query.where(sql<boolean>`t.outcome = ${status}`);
  }
  return query as unknown as SelectQueryBuilder<Tables, keyof Tables, { id: string }>;
}

/**
 * Selects a flow's rows of a table, by its index on flow and step. The fence (`offset 0`) keeps the planner
 * from walking the index on id instead, past all jobs of others.
 */
function ofFlow(
  { kysely }: Database,
  table: Exclude<JobTable, 'work_item'>,
  { flow, step }: { readonly flow: string; readonly step: string | undefined },
): AliasedExpression<QueueTable, 't'> {
  const own = { queue: 'run_after', dead_letter: 'reason', history: 'outcome' } as const;
  let query = kysely
    .selectFrom(table as 'queue')
    .select(['id', 'queue', 'task', 'key', own[table] as 'run_after'])
    .where('flow', '=', flow)
    .offset(0);
  if (step !== undefined) {
    query = query.where('step', '=', (steps) =>
      steps
        .selectFrom('flow_step')
        .select('flow_step.step')
        .where('flow_step.flow', '=', flow)
        .where('flow_step.name', '=', step),
    );
  }
  return query.as('t') as unknown as AliasedExpression<QueueTable, 't'>;
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
    j.max_crashes as "maxCrashes", j.created, extract(epoch from clock_timestamp() - j.created)::float8 * 1000 as "ageMs",
    j.run_after as "runAfter", j.expires_at as "expiresAt", extract(epoch from j.timeout)::float8 * 1000 as "timeoutMs",
    j.unique_key as "uniqueKey", j.payload_version as "payloadVersion", j.trace, j.position::float8 as position, j.pool, j.node,
    j.started, j.lock_timeout as "leaseEnds", j.cancelled as "cancelAsked", j.progress, j.has_checkpoint as "hasCheckpoint",
    j.suspect, j.finished, j.reason, j.last_error as "lastError", j.flow,
    (select s.name from ${schema}.flow_step s where s.flow = j.flow and s.step = j.step) as step`;
}
