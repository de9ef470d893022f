import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { StoredQueueSettings } from './queue-settings.ts';
import { storedSettings } from './queue-settings.ts';

/** A queue: its settings, and its job counts. */
export interface QueueInfo extends StoredQueueSettings {
  readonly queue: string;
  /**
   * All of the following counts are exact. If false there are many jobs: `delayed`, `pending` and `dead` may
   * be estimates, and `oldestMs` is a lower bound.
   */
  readonly exact: boolean;
  readonly delayed: number;
  readonly pending: number;
  readonly ready: number;
  readonly running: number;
  readonly dead: number;
  /** Age of the oldest job that could run and doesn't, in milliseconds. */
  readonly oldestMs: number | null;
  /** Age of the oldest lease, in milliseconds. */
  readonly claimAgeMs: number | null;
  /**
   * Failed attempts, as a share of all attempts of the jobs that ended within `windowMs`; null: none ended.
   */
  readonly retryRate: number | null;
  /** Five minutes, or the shorter time in which the newest 10000 jobs of all queues ended. */
  readonly windowMs: number;
  /** Failed attempts of jobs that ended within `windowMs`. */
  readonly failedAttempts: number;
  readonly attempts: number;
  /** Jobs done in the last five minutes; extrapolated if `windowMs` is shorter. */
  readonly done5m: number;
  readonly dead5m: number;
}

/**
 * Lists, by name, every queue that has a job, had one within five minutes, or is configured. Reads the view
 * `queue_status`, whose cost does not grow with the waiting jobs: it counts up to 10000 jobs, and estimates
 * beyond.
 */
export async function listQueues({ kysely }: Database): Promise<readonly QueueInfo[]> {
  const rows = await kysely
    .selectFrom('queue_status as s')
    .leftJoin('queue_config as c', 'c.queue', 's.queue')
    .selectAll('s')
    .select([
      'c.concurrency',
      'c.key_concurrency',
      'c.rate',
      'c.rate_burst',
      'c.key_rate',
      'c.key_rate_burst',
      'c.key_pending',
    ])
    .select([
      sql<number>`coalesce(c.weight, 1)`.as('weight'),
      sql<number>`extract(epoch from coalesce(c.retention, interval '7 days'))::float8 * 1000`.as(
        'retention_ms',
      ),
    ])
    .orderBy('s.queue')
    .execute();
  const ms = (seconds: number | null): number | null => (seconds === null ? null : seconds * 1_000);
  return rows.map((row) => ({
    queue: row.queue,
    ...storedSettings(row),
    delayed: Number(row.delayed),
    pending: Number(row.pending),
    ready: Number(row.ready),
    running: Number(row.running),
    dead: Number(row.dead),
    oldestMs: ms(row.oldest_s),
    claimAgeMs: ms(row.claim_age_s),
    exact: row.exact,
    retryRate: row.retry_rate,
    windowMs: row.window_s * 1_000,
    failedAttempts: Number(row.failed),
    attempts: Number(row.attempts),
    done5m: Number(row.done_5m),
    dead5m: Number(row.dead_5m),
  }));
}
