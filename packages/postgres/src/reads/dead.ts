import { isUuid } from '@pgqueue/core/internal';
import type { SelectQueryBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { AttemptError, DeadLetterTable, Tables } from '../connection/tables.ts';
import type { Page } from './page.ts';
import { badCursor, checkLimit, checkTexts, pageOf } from './page.ts';

/** Reason why a job is dead: it ran out of tries, out of crashes, or its handler gave up. */
export type DeadReason = DeadLetterTable['reason'];

/** A dead job as lists show it. */
export interface DeadJob {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly reason: DeadReason;
  readonly tries: number;
  readonly crashes: number;
  readonly created: Date;
  readonly died: Date;
  /** Time since it died, in milliseconds, by the database's clock. */
  readonly ageMs: number;
  readonly node: string | null;
  readonly uniqueKey: string | null;
  readonly lastError: AttemptError | null;
}

/** A filter of dead jobs: a job must match every given field. */
export interface DeadFilter {
  readonly queue?: string;
  readonly task?: string;
  readonly reason?: DeadReason;
  /** Died at least this long ago, in milliseconds. */
  readonly olderThanMs?: number;
  /** Died at most this long ago, in milliseconds. */
  readonly newerThanMs?: number;
}

/** One page of the dead jobs that match a filter. */
export interface DeadListOptions extends DeadFilter {
  /** The `next` of the previous page. */
  readonly after?: string;
  /** 1 to 1000. Default 50. */
  readonly limit?: number;
}

/** Lists dead jobs, the latest death first. Served by dead_letter_died. */
export async function listDead(database: Database, options: DeadListOptions = {}): Promise<Page<DeadJob>> {
  const { after, limit = 50 } = options;
  checkLimit(limit);
  let query = filtered(database, options)
    .select(['id', 'queue', 'task', 'key', 'reason', 'tries', 'crashes', 'created', 'died'])
    .select(['node', 'unique_key as uniqueKey'])
    .select([
      sql<number>`extract(epoch from clock_timestamp() - died)::float8 * 1000`.as('ageMs'),
      sql<AttemptError | null>`errors -> -1`.as('lastError'),
      diedUs.as('died_us'),
    ])
    .orderBy('died', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1);
  if (after !== undefined) {
    const { us, id } = parseCursor(after);
    query = query.where(sql<boolean>`(died, id) < (${fromUs(us)}, ${id}::uuid)`);
  }
  return pageOf(await query.execute(), limit, {
    cursor: (row) => `${row.died_us}_${row.id}`,
    toItem: ({ died_us: _us, ...row }): DeadJob => row,
  });
}

type Given<Filter> = { readonly [Name in keyof Filter]: Filter[Name] | undefined };

/** Dead jobs that match a filter at one moment, between the first and the last death, in microseconds. */
export interface DeadSpan {
  readonly total: number;
  readonly fromUs: string;
  readonly upToUs: string;
}

/** Counts the dead jobs that match. Bulk work keeps to this span: jobs that die later are not included. */
export async function countDead(database: Database, filter: DeadFilter): Promise<DeadSpan> {
  const row = await filtered(database, filter)
    .select([
      sql<number>`count(*)::integer`.as('total'),
      sql<string>`coalesce((extract(epoch from min(died)) * 1000000)::bigint, 0)::text`.as('from'),
      sql<string>`coalesce((extract(epoch from max(died)) * 1000000)::bigint, 0)::text`.as('up_to'),
    ])
    .executeTakeFirstOrThrow();
  return { total: row.total, fromUs: row.from, upToUs: row.up_to };
}

/** Returns the next ids after the cursor, the earliest death first. */
export async function nextDead(
  database: Database,
  filter: DeadFilter,
  page: { readonly after: string | null; readonly span: DeadSpan; readonly max: number },
): Promise<{ readonly ids: readonly string[]; readonly after: string | null }> {
  // the span begins with what was new enough then
  let query = filtered(database, { ...filter, newerThanMs: undefined })
    .select(['id', diedUs.as('died_us')])
    .where(sql<boolean>`died between ${fromUs(page.span.fromUs)} and ${fromUs(page.span.upToUs)}`)
    .orderBy('died')
    .orderBy('id')
    .limit(page.max);
  if (page.after !== null) {
    const { us, id } = parseCursor(page.after);
    query = query.where(sql<boolean>`(died, id) > (${fromUs(us)}, ${id}::uuid)`);
  }
  const rows = await query.execute();
  const last = rows.at(-1);
  return {
    ids: rows.map(({ id }) => id),
    after: last === undefined ? null : `${last.died_us}_${last.id}`,
  };
}

// Cursors hold microseconds: a Date holds milliseconds only, and would skip or repeat rows of the same one.
const diedUs = sql<string>`(extract(epoch from died) * 1000000)::bigint::text`;

function fromUs(us: string): ReturnType<typeof sql> {
  return sql`(timestamptz 'epoch' + ${us}::bigint * interval '1 microsecond')`;
}

/**
 * Parses the cursor of a page of jobs that have ended: when the last of them did, in microseconds, and its id.
 * @throws {PgQueueError} `configuration`
 */
export function parseCursor(after: string): { readonly us: string; readonly id: string } {
  const [us = '', id = ''] = after.split('_');
  if (!/^\d{1,18}$/.test(us) || !isUuid(id)) throw badCursor(after);
  return { us, id };
}

function filtered(
  { kysely }: Database,
  { queue, task, reason, olderThanMs, newerThanMs }: Given<DeadFilter>,
): SelectQueryBuilder<Tables, 'dead_letter', object> {
  checkTexts({ queue, task, reason });
  // the index dead_letter_died is for queries that say so
  let query = kysely.selectFrom('dead_letter').where(sql<boolean>`died > '-infinity'`);
  if (queue !== undefined) query = query.where('queue', '=', queue);
  if (task !== undefined) query = query.where('task', '=', task);
  if (reason !== undefined) query = query.where('reason', '=', reason);
  const ago = (ms: number): ReturnType<typeof sql> =>
    sql`clock_timestamp() - ${ms}::float8 * interval '1 millisecond'`;
  if (olderThanMs !== undefined) query = query.where(sql<boolean>`died <= ${ago(olderThanMs)}`);
  if (newerThanMs !== undefined) query = query.where(sql<boolean>`died >= ${ago(newerThanMs)}`);
  return query;
}
