import type { Attributes } from '@pgqueue/core';
import { isUuid, PgQueueError } from '@pgqueue/core';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { Page } from './page.ts';
import { badCursor, checkLimit, pageOf } from './page.ts';

/** A job that ran, as HISTORY keeps it: what a simulation needs to let it run again. */
export interface RecordedJob {
  readonly id: string;
  readonly queue: string;
  readonly key: string;
  readonly task: string;
  readonly version: number;
  readonly priority: number;
  readonly attributes: Attributes;
  readonly outcome: 'done' | 'cancelled';
  /** Attempts that ran to an error before the last one. */
  readonly tries: number;
  readonly created: Date;
  /** When its last attempt began, and ended. */
  readonly started: Date;
  readonly finished: Date;
}

/** Which page of the recorded past: what finished from `from` on, and before `to`. */
export interface RecordedOptions {
  /** Default: as far back as there is history. */
  readonly from?: Date;
  /** Default: up to now. */
  readonly to?: Date;
  /** The `next` of the page before. */
  readonly after?: string;
  /** 1 to 1000. Default 1000. */
  readonly limit?: number;
}

/**
 * By the time at which they finished. Jobs that never started (expired, cancelled before) are left out. Served by
 * history_finished: a range of time reads its partitions only, and each page only itself.
 */
export async function listRecorded(
  { kysely }: Database,
  { from, to, after, limit = 1_000 }: RecordedOptions = {},
): Promise<Page<RecordedJob>> {
  checkLimit(limit);
  for (const [name, value] of Object.entries({ from, to })) {
    if (value !== undefined && !(value instanceof Date && Number.isFinite(value.getTime()))) {
      throw new PgQueueError('configuration', `${name} must be a valid Date`);
    }
  }
  let query = kysely
    .selectFrom('history')
    .select(['id', 'queue', 'key', 'task', 'payload_version', 'priority', 'attributes', 'tries'])
    .select(['created', 'started', 'finished', 'outcome'])
    // a Date holds milliseconds only, and would skip or repeat rows of the same one
    .select(sql<string>`(extract(epoch from finished) * 1000000)::bigint::text`.as('finished_us'))
    .where('started', 'is not', null)
    .where('outcome', 'in', ['done', 'cancelled'])
    .orderBy('finished')
    .orderBy('id')
    .limit(limit + 1);
  if (from !== undefined) query = query.where('finished', '>=', from);
  if (to !== undefined) query = query.where('finished', '<', to);
  if (after !== undefined) {
    const { us, id } = parseCursor(after);
    const time = sql<Date>`(timestamptz 'epoch' + ${us}::bigint * interval '1 microsecond')`;
    // the first is what the index serves
    query = query.where('finished', '>=', time).where(sql<boolean>`(finished, id) > (${time}, ${id}::uuid)`);
  }
  return pageOf(await query.execute(), limit, {
    cursor: (row) => `${row.finished_us}_${row.id}`,
    toItem: ({ payload_version: version, started, outcome, finished_us: _us, ...row }): RecordedJob => ({
      ...row,
      version,
      started: started ?? row.finished,
      outcome: outcome === 'cancelled' ? 'cancelled' : 'done',
    }),
  });
}

function parseCursor(after: string): { readonly us: string; readonly id: string } {
  const [us = '', id = ''] = after.split('_');
  if (!/^\d{1,18}$/.test(us) || !isUuid(id)) throw badCursor(after);
  return { us, id };
}
