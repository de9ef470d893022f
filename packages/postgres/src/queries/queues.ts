import { PgQueueError } from '@pgqueue/core';
import { sql } from 'kysely';
import type { Database } from '../database.ts';

/** A queue: its settings, and its jobs in numbers. */
export interface QueueInfo {
  readonly queue: string;
  readonly paused: boolean;
  readonly pool: string;
  readonly retentionMs: number;
  readonly delayed: number;
  readonly pending: number;
  readonly ready: number;
  readonly running: number;
  readonly dead: number;
  /** Age of the oldest job that could run and doesn't. */
  readonly oldestMs: number | null;
  /** How long the oldest lease has been held. */
  readonly claimAgeMs: number | null;
  /** Failed attempts as a share of those of all jobs that ended in the last five minutes. */
  readonly retryRate: number | null;
  /** Ended in the last five minutes. */
  readonly done5m: number;
  readonly dead5m: number;
}

/** Every queue that has a job, had one within five minutes, or is configured; by name. Counts all waiting jobs. */
export async function listQueues({ kysely }: Database): Promise<readonly QueueInfo[]> {
  const rows = await kysely
    .selectFrom('queue_status as s')
    .leftJoin('queue_config as c', 'c.queue', 's.queue')
    .selectAll('s')
    .select(
      sql<number>`extract(epoch from coalesce(c.retention, interval '7 days'))::float8 * 1000`.as(
        'retention_ms',
      ),
    )
    .orderBy('s.queue')
    .execute();
  const ms = (seconds: number | null): number | null => (seconds === null ? null : seconds * 1_000);
  return rows.map((row) => ({
    queue: row.queue,
    paused: row.paused,
    pool: row.pool,
    retentionMs: row.retention_ms,
    delayed: Number(row.delayed),
    pending: Number(row.pending),
    ready: Number(row.ready),
    running: Number(row.running),
    dead: Number(row.dead),
    oldestMs: ms(row.oldest_s),
    claimAgeMs: ms(row.claim_age_s),
    retryRate: row.retry_rate,
    done5m: Number(row.done_5m),
    dead5m: Number(row.dead_5m),
  }));
}

export interface QueueSettings {
  readonly paused?: boolean;
  /** The group of nodes that serves it. Work items that exist already stay with the pool they were given. */
  readonly pool?: string;
  /** How long its HISTORY is kept; 0 keeps none. */
  readonly retentionMs?: number;
}

/** Changes what is given and leaves the rest; the queue needs no job to exist. @throws {PgQueueError} `configuration` */
export async function configureQueue(
  { kysely }: Database,
  queue: string,
  { paused, pool, retentionMs }: QueueSettings,
): Promise<void> {
  checkName('queue', queue);
  if (pool !== undefined) checkName('pool', pool);
  const given = {
    ...(paused === undefined ? {} : { paused }),
    ...(pool === undefined ? {} : { pool }),
    ...(retentionMs === undefined ? {} : { retention: `${retentionMs} milliseconds` }),
  };
  await kysely
    .insertInto('queue_config')
    .values({ queue, ...given })
    .onConflict((conflict) =>
      conflict.column('queue').doUpdateSet({ queue, ...given, updated: sql<Date>`clock_timestamp()` }),
    )
    .execute();
}

function checkName(what: string, name: string): void {
  if (name.length >= 1 && name.length <= 100 && !name.includes('\u0000')) return;
  throw new PgQueueError('configuration', `${what} must be a text of 1 to 100 characters`);
}
