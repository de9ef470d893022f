import type { RawBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { FindFilter, JobTable } from '../reads/job-sources.ts';
import { allOf, conditionsOf, idConditions, isOfFlow, rowsOf, tablesOf } from '../reads/job-sources.ts';
import { waitingQueues } from './keys.ts';
import type { Found, WalkLimits } from './walk.ts';
import { pageOfWalks, walked } from './walk.ts';

/** One page of the jobs that match a filter. */
export interface FindOptions extends FindFilter, WalkLimits {
  /** The `next` of the previous page: a job's id. */
  readonly after?: string;
}

/**
 * Finds a page of jobs in the order of their ids, newest first. Each table is read backwards along its index
 * on id, up to `walkMax` rows, so rare matches take several pages. Other indexes lead straight to delayed
 * jobs, to the waiting jobs of a key, and to the jobs of a flow: if there are fewer than `walkMax` (of a flow:
 * 150,000), all of them are read.
 */
export async function findJobs(database: Database, options: FindOptions): Promise<Found> {
  const tested = { fits: fits(database, options), limit: options.limit };
  const walks = await Promise.all(
    sourcesOf(options).map(async (source) => {
      const straight = straightTo(database, source, options);
      if (straight !== undefined) {
        const walk = await walked(database, { ...tested, rows: straight });
        if (walk.seen < straightMax(options)) return { ...walk, lowest: null };
      }
      return walked(database, { ...tested, rows: backwards(database, source, options) });
    }),
  );
  return pageOfWalks(walks, options);
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

/** Returns SQL for the newest rows of a table after the cursor. */
function backwards(database: Database, source: JobTable, options: FindOptions): RawBuilder<unknown> {
  const max = isWide(options) ? options.walkMax : Math.min(options.walkMax, options.limit + 1);
  return sql`${rowsOf(database, source, options)} where ${allOf(idConditions(options))} order by t.id desc limit ${max}`;
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
    return sql`${rows} where ${isOfFlow(database, options.flow)} limit ${straightMax(options)}`;
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

/** Reports whether some of the rows read may not match. */
function isWide({ status, queue, task, key, error, field, node, flow }: FindFilter): boolean {
  return [status === 'dead' ? undefined : status, queue, task, key, error, field, node, flow].some(
    (part) => part !== undefined,
  );
}

function fits(database: Database, options: FindOptions): RawBuilder<unknown> {
  return sql`coalesce(${allOf(conditionsOf(database, options))}, false)`;
}

/** Returns the creation time of a UUID v7. */
export function timeOfId(id: string): Date {
  return new Date(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16));
}
