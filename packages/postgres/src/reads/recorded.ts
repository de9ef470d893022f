import type { Attributes } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { Page } from './page.ts';
import { parseCursor } from './dead.ts';
import { checkLimit, pageOf } from './page.ts';

/** A job that ran, as kept in HISTORY: the data that a simulation needs to run it again. */
export interface RecordedJob {
  readonly id: string;
  readonly queue: string;
  readonly key: string;
  readonly task: string;
  readonly version: number;
  readonly priority: number;
  readonly attributes: Attributes;
  readonly outcome: 'done' | 'cancelled';
  /** Attempts that ran to an error before the last attempt. */
  readonly tries: number;
  readonly created: Date;
  /** Start and end of its last attempt. */
  readonly started: Date;
  readonly finished: Date;
}

/** One page of the jobs that finished from `from` on and before `to`. */
export interface RecordedOptions {
  /** Default: the beginning of history. */
  readonly from?: Date;
  /** Default: the present. */
  readonly to?: Date;
  /** The `next` of the previous page. */
  readonly after?: string;
  /** 1 to 1000. Default 1000. */
  readonly limit?: number;
}

/**
 * Lists jobs that ran, in the order in which they finished. Leaves out jobs that never started (expired, or
 * cancelled before their start). Served by history_finished: a range of time reads only its partitions, and
 * each page reads only its own rows.
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
    // the index serves the first condition
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
