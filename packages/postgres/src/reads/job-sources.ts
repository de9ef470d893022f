import type { JobStatus } from '@pgqueue/core';
import { unreachable } from '@pgqueue/core/internal';
import type { RawBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import { hasItem } from './items.ts';

/** A filter of jobs: a job must match every given field. */
export interface FindFilter {
  readonly status?: JobStatus | undefined;
  /** Without a status: only waiting and running jobs. */
  readonly unfinished?: boolean;
  readonly queue?: string | undefined;
  readonly task?: string | undefined;
  readonly key?: string | undefined;
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
  readonly flow?: { readonly id: string; readonly step?: string | undefined } | undefined;
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

/** Returns SQL for all rows of a table, as `t`. */
export function rowsOf(database: Database, source: JobTable, filter: FindFilter): RawBuilder<unknown> {
  const table = (name: string): RawBuilder<unknown> => sql.table(`${database.schema}.${name}`);
  switch (source) {
    case 'queue':
      return sql`select ${columns(filter)}, null::text as node, ${waiting(database, filter)} as status from ${table('queue')} t`;
    case 'work_item':
      // columns by name: a viewer may not read all of them
      return sql`select t.*, w.lock_key as node,
                        case when w.lock_key is null then 'ready' else 'running' end as status
                 from (select i.id, i.lock_key from ${table('work_item')} i offset 0) w
                 cross join lateral (
                   select ${columns(filter)} from ${table('queue')} t
                   where t.id = w.id offset 0) t`;
    case 'dead_letter':
      return sql`select ${columns(filter)}, t.node, 'dead' as status from ${table('dead_letter')} t`;
    case 'history':
      return sql`select ${columns(filter)}, t.node, t.outcome as status from ${table('history')} t`;
    default:
      return unreachable(source);
  }
}

/** Returns SQL for the columns that every table has, by name: a viewer may not read all of them. */
function columns(filter: FindFilter): RawBuilder<unknown> {
  return sql`t.id, t.queue, t.task, t.key, t.flow, t.step, t.errors, ${payload(filter)} as payload`;
}

/** Returns SQL for the payload, read only if the filter looks into it: not every role may read it. */
function payload({ field }: FindFilter): RawBuilder<unknown> {
  return field === undefined ? sql`null::jsonb` : sql`t.payload`;
}

/** Returns SQL for the status of a row of QUEUE, looked up only if the filter has a status. */
function waiting({ schema }: Database, { status }: FindFilter): RawBuilder<unknown> {
  if (status === undefined) return sql`null::text`;
  return sql`case when ${sql.raw(hasItem(schema, { id: 't.id' }))} then 'item'
                  when t.run_after is null then 'pending' else 'delayed' end`;
}

/** Time by which a producer's clock may be ahead of this one. */
const aheadMs = 86_400_000;

/** Returns the conditions of a filter on the rows of {@link rowsOf}. `after`: id of the last job of the page before. */
export function conditionsOf(
  database: Database,
  filter: FindFilter & { readonly after?: string | undefined },
): readonly RawBuilder<unknown>[] {
  const { status, queue, task, key, error, field, node, flow } = filter;
  return [
    ...idConditions(filter),
    ...(status === undefined ? [] : [sql`t.status = ${status}`]),
    ...(queue === undefined ? [] : [sql`t.queue = ${queue}`]),
    ...(task === undefined ? [] : [sql`t.task = ${task}`]),
    ...(key === undefined ? [] : [sql`t.key = ${key}`]),
    ...(node === undefined ? [] : [sql`t.node = ${node}`]),
    ...(flow === undefined ? [] : [isOfFlow(database, flow)]),
    ...(error === undefined
      ? []
      : [sql`position(lower(${error}) in lower(t.errors -> -1 ->> 'message')) > 0`]),
    ...(field === undefined ? [] : [sql`t.payload #>> ${field.path} = ${field.value}`]),
  ];
}

/** Returns the conditions of a filter on ids alone. */
export function idConditions({
  after,
  since,
  until,
}: Pick<FindFilter, 'since' | 'until'> & {
  readonly after?: string | undefined;
}): readonly RawBuilder<unknown>[] {
  const isDated = since !== undefined || until !== undefined;
  return [
    ...(after === undefined ? [] : [sql`t.id < ${after}::uuid`]),
    ...(since === undefined ? [] : [sql`t.id >= ${firstIdOf(since)}::uuid`]),
    // bounded above, too: ids of other versions, made of digests, may be anywhere
    ...(isDated ? [sql`t.id < ${firstIdOf(until ?? new Date(Date.now() + aheadMs))}::uuid`] : []),
    ...(isDated ? [sql`substr(t.id::text, 15, 1) = '7'`] : []),
  ];
}

/** Returns the condition that a job is of a flow, and of a step of it. */
export function isOfFlow(
  { schema }: Database,
  { id, step }: NonNullable<FindFilter['flow']>,
): RawBuilder<unknown> {
  const steps = sql.table(`${schema}.flow_step`);
  const ofStep =
    step === undefined
      ? sql``
      : sql`and t.step = (select s.step from ${steps} s where s.flow = ${id}::uuid and s.name = ${step})`;
  return sql`t.flow = ${id}::uuid ${ofStep}`;
}

/** Joins conditions; none are true. */
export function allOf(conditions: readonly RawBuilder<unknown>[]): RawBuilder<unknown> {
  return conditions.length === 0 ? sql`true` : sql.join(conditions, sql` and `);
}

/** Returns the smallest UUID v7 of a millisecond. */
export function firstIdOf(time: Date): string {
  const hex = Math.max(0, time.getTime()).toString(16).padStart(12, '0').slice(-12);
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
