import type { JobStatus } from '@pgqueue/core';
import { unreachable } from '@pgqueue/core/internal';
import type { RawBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import { hasItem } from '../reads/items.ts';
import type { JobTable } from '../reads/jobs.ts';
import { tablesOf } from '../reads/jobs.ts';
import { waitingQueues } from './keys.ts';

/** A filter of jobs: a job must match every given field. */
export interface FindFilter {
  readonly status?: JobStatus;
  /** Without a status: only waiting and running jobs. */
  readonly unfinished?: boolean;
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  /** Created from `since` on and before `until`, as the ids tell it: only UUID v7 do, so jobs with others never match. */
  readonly since?: Date;
  readonly until?: Date;
  /** Text in the message of its last error, in any case. */
  readonly error?: string;
  /** A field of the payload: the names that lead to it, and its value as text. */
  readonly field?: { readonly path: readonly string[]; readonly value: string };
  /** Node that runs it, or ran it last. */
  readonly node?: string;
  /** Flow that it belongs to, and the name of its step there. */
  readonly flow?: { readonly id: string; readonly step?: string };
}

/** One page of the jobs that match a filter. */
export interface FindOptions extends FindFilter {
  /** The `next` of the previous page: a job's id. */
  readonly after?: string;
  readonly limit: number;
  /** Maximum number of rows of each table that one page reads. */
  readonly walkMax: number;
}

/** Ids of matching jobs, newest first. */
export interface Found {
  readonly ids: readonly string[];
  readonly next: string | null;
  /** Id down to which the page has read, if it read as many rows as it may; else null. */
  readonly lookedDownTo: string | null;
}

/**
 * Finds a page of jobs in the order of their ids, newest first. Each table is read backwards along its index
 * on id, up to `walkMax` rows, so rare matches take several pages. Other indexes lead straight to delayed
 * jobs, to the waiting jobs of a key, and to the jobs of a flow: if there are fewer than `walkMax` (of a flow:
 * 150,000), all of them are read.
 */
export async function findJobs(database: Database, options: FindOptions): Promise<Found> {
  const { limit, walkMax } = options;
  const walks = await Promise.all(
    sourcesOf(options).map(async (source) => {
      const straight = straightTo(database, source, options);
      if (straight !== undefined) {
        const walk = await walked(database, straight, options);
        if (walk.seen < straightMax(options)) return { ...walk, lowest: null };
      }
      return walked(database, backwards(database, source, options), options);
    }),
  );
  const horizon = walks.reduce<string | null>(
    (most, { seen, lowest }) =>
      seen >= walkMax && lowest !== null && (most === null || lowest > most) ? lowest : most,
    null,
  );
  const ids = [...new Set(walks.flatMap((walk) => walk.ids))]
    .filter((id) => horizon === null || id >= horizon)
    .toSorted((a, b) => (a < b ? 1 : -1));
  const shown = ids.slice(0, limit);
  const last = shown.at(-1);
  if (ids.length > limit && last !== undefined) return { ids: shown, next: last, lookedDownTo: null };
  return { ids: shown, next: horizon, lookedDownTo: horizon };
}

/**
 * Counts matching jobs up to `max`, reading up to `walkMax` rows of each table. `more`: there may be further
 * ones.
 */
export async function countFound(
  database: Database,
  { max, ...options }: FindFilter & { readonly max: number; readonly walkMax: number },
): Promise<{ readonly count: number; readonly more: boolean }> {
  const page = { ...options, limit: options.walkMax };
  const parts = await Promise.all(
    sourcesOf(options).map(async (source) => {
      const straight = straightTo(database, source, page);
      const part = straight === undefined ? undefined : await counted(database, straight, page);
      if (part !== undefined && part.seen < straightMax(options))
        return { fitting: part.fitting, ended: true };
      const { fitting, seen } = await counted(database, backwards(database, source, page), page);
      return { fitting: Math.max(fitting, part?.fitting ?? 0), ended: seen < options.walkMax };
    }),
  );
  const count = parts.reduce((sum, { fitting }) => sum + fitting, 0);
  return { count: Math.min(count, max), more: count > max || parts.some(({ ended }) => !ended) };
}

async function counted(
  database: Database,
  rows: RawBuilder<unknown>,
  options: FindOptions,
): Promise<{ readonly fitting: number; readonly seen: number }> {
  const found = await sql<{ fitting: number; seen: number }>`
    select count(*) filter (where ${fits(database, options)})::integer as fitting, count(*)::integer as seen from (${rows}) t`.execute(
    database.kysely,
  );
  return found.rows[0] ?? { fitting: 0, seen: 0 };
}

function sourcesOf({ status, unfinished = false, node }: FindFilter): readonly JobTable[] {
  if (status !== undefined) return tablesOf(status);
  // jobs that nodes run, or are to run, are found by the work items
  const [, ...ended] = tablesOf(undefined);
  return [node === undefined ? 'queue' : 'work_item', ...(unfinished ? [] : ended)];
}

interface Walk {
  /** Matching ids, newest first: one more than the page holds. */
  readonly ids: readonly string[];
  readonly seen: number;
  readonly lowest: string | null;
}

/** Reads the rows of a source, and tests which of them match. */
async function walked(database: Database, rows: RawBuilder<unknown>, options: FindOptions): Promise<Walk> {
  const found = await sql<Walk>`
    with walked as materialized (select t.id, ${fits(database, options)} as fits from (${rows}) t)
    select array(select w.id from walked w where w.fits order by w.id desc limit ${options.limit + 1})::text[] as ids,
           (select count(*) from walked)::integer as seen,
           (select w.id::text from walked w order by w.id limit 1) as lowest`.execute(database.kysely);
  return found.rows[0] ?? { ids: [], seen: 0, lowest: null };
}

/** Returns SQL for all rows of a source, as `t`. */
function rowsOf(database: Database, source: JobTable, options: FindFilter): RawBuilder<unknown> {
  const table = (name: string): RawBuilder<unknown> => sql.table(`${database.schema}.${name}`);
  switch (source) {
    case 'queue':
      return sql`select ${columns(options)}, null::text as node, ${waiting(database, options)} as status from ${table('queue')} t`;
    case 'work_item':
      // columns by name: a viewer may not read all of them
      return sql`select t.*, w.lock_key as node,
                        case when w.lock_key is null then 'ready' else 'running' end as status
                 from (select i.id, i.lock_key from ${table('work_item')} i offset 0) w
                 cross join lateral (
                   select ${columns(options)} from ${table('queue')} t
                   where t.id = w.id offset 0) t`;
    case 'dead_letter':
      return sql`select ${columns(options)}, t.node, 'dead' as status from ${table('dead_letter')} t`;
    case 'history':
      return sql`select ${columns(options)}, t.node, t.outcome as status from ${table('history')} t`;
    default:
      return unreachable(source);
  }
}

/** Returns SQL for the newest rows of a table after the cursor. */
function backwards(database: Database, source: JobTable, options: FindOptions): RawBuilder<unknown> {
  const max = isWide(options) ? options.walkMax : Math.min(options.walkMax, options.limit + 1);
  return sql`${rowsOf(database, source, options)} where ${ids(options)} order by t.id desc limit ${max}`;
}

/** Returns SQL for the columns that every source has, by name: a viewer may not read all of them. */
function columns(options: FindFilter): RawBuilder<unknown> {
  return sql`t.id, t.queue, t.task, t.key, t.flow, t.step, t.errors, ${payload(options)} as payload`;
}

/** Rows of a flow that are read from each table: reading and sorting them takes a quarter of a second. */
const ofFlowMax = 150_000;

/** Returns the rows at which a straight way ends. */
function straightMax({ flow, walkMax }: Pick<FindOptions, 'flow' | 'walkMax'>): number {
  return flow === undefined ? walkMax : Math.max(walkMax, ofFlowMax);
}

/**
 * Returns SQL for rows that an index leads to without reading others; undefined if there is no such index. They are
 * limited in the order of that index, and {@link fits} leaves out those before the cursor: fewer than the limit are
 * all that there are.
 */
function straightTo(
  database: Database,
  source: JobTable,
  options: FindOptions,
): RawBuilder<unknown> | undefined {
  const rows = rowsOf(database, source, options);
  // by the indexes on flow and step; work items are few, and walked
  if (options.flow !== undefined && source !== 'work_item')
    return sql`${rows} where ${isOfFlow(database, options)} limit ${straightMax(options)}`;
  if (options.flow !== undefined || source !== 'queue') return undefined;
  const { status, key, queue, walkMax } = options;
  if (status === 'delayed')
    return sql`${rows} where t.run_after is not null order by t.run_after limit ${walkMax}`;
  if (status !== 'pending' || key === undefined) return undefined;
  // a queue without such a job is a row of nulls: it counts as read, so that the queues are bounded, too
  return sql`select l.* from (${queue === undefined ? waitingQueues(database) : sql`select ${queue}::text as queue`}) n
    left join lateral (
      ${rows} where t.run_after is null and t.queue = n.queue and t.key = ${key}
      order by t.queue, t.key, t.priority, t.seq limit ${walkMax}) l on true
    limit ${walkMax}`;
}

/** Returns the condition that a job is of the filter's flow and step. */
function isOfFlow({ schema }: Database, { flow }: FindFilter): RawBuilder<boolean> {
  if (flow === undefined) return sql<boolean>`true`;
  const { id, step } = flow;
  const steps = sql.table(`${schema}.flow_step`);
  const ofStep =
    step === undefined
      ? sql``
      : sql`and t.step = (select s.step from ${steps} s where s.flow = ${id}::uuid and s.name = ${step})`;
  return sql<boolean>`t.flow = ${id}::uuid ${ofStep}`;
}

/** Returns SQL for the status of a row of QUEUE, looked up only if the filter has a status. */
function waiting({ schema }: Database, { status }: FindFilter): RawBuilder<unknown> {
  if (status === undefined) return sql`null::text`;
  return sql`case when ${sql.raw(hasItem(schema, { id: 't.id' }))} then 'item'
                  when t.run_after is null then 'pending' else 'delayed' end`;
}

/** Returns SQL for the payload, read only if the filter looks into it: not every role may read it. */
function payload({ field }: FindFilter): RawBuilder<unknown> {
  return field === undefined ? sql`null::jsonb` : sql`t.payload`;
}

/** Reports whether some of the rows read may not match. */
function isWide({ status, queue, task, key, error, field, node, flow }: FindFilter): boolean {
  return [status === 'dead' ? undefined : status, queue, task, key, error, field, node, flow].some(
    (part) => part !== undefined,
  );
}

/** Time by which a producer's clock may be ahead of this one. */
const aheadMs = 86_400_000;

function ids({ after, since, until }: FindOptions): RawBuilder<boolean> {
  const isDated = since !== undefined || until !== undefined;
  const parts = [
    ...(after === undefined ? [] : [sql`t.id < ${after}::uuid`]),
    ...(since === undefined ? [] : [sql`t.id >= ${firstIdOf(since)}::uuid`]),
    // bounded above, too: ids of other versions, made of digests, may be anywhere
    ...(isDated ? [sql`t.id < ${firstIdOf(until ?? new Date(Date.now() + aheadMs))}::uuid`] : []),
    ...(isDated ? [sql`substr(t.id::text, 15, 1) = '7'`] : []),
  ];
  return parts.length === 0 ? sql<boolean>`true` : sql<boolean>`${sql.join(parts, sql` and `)}`;
}

function fits(database: Database, options: FindOptions): RawBuilder<boolean> {
  const { status, queue, task, key, error, field, node, flow } = options;
  const parts = [
    ids(options),
    ...(status === undefined ? [] : [sql`t.status = ${status}`]),
    ...(queue === undefined ? [] : [sql`t.queue = ${queue}`]),
    ...(task === undefined ? [] : [sql`t.task = ${task}`]),
    ...(key === undefined ? [] : [sql`t.key = ${key}`]),
    ...(node === undefined ? [] : [sql`t.node = ${node}`]),
    ...(flow === undefined ? [] : [isOfFlow(database, options)]),
    ...(error === undefined
      ? []
      : [sql`position(lower(${error}) in lower(t.errors -> -1 ->> 'message')) > 0`]),
    ...(field === undefined ? [] : [sql`t.payload #>> ${field.path} = ${field.value}`]),
  ];
  return sql<boolean>`coalesce(${sql.join(parts, sql` and `)}, false)`;
}

/** Returns the smallest UUID v7 of a millisecond. */
export function firstIdOf(time: Date): string {
  const hex = Math.max(0, time.getTime()).toString(16).padStart(12, '0').slice(-12);
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}

/** Returns the creation time of a UUID v7. */
export function timeOfId(id: string): Date {
  return new Date(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16));
}
