import type { Database } from '../connection/database.ts';
import type { StoredQueueSettings } from './queue-settings.ts';
import { settingsColumns } from './queue-settings.ts';

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
export function listQueues({ query, schema }: Database): Promise<readonly QueueInfo[]> {
  return query<QueueInfo>(
    `select s.queue, ${settingsColumns}, s.exact, s.delayed::float8, s.pending::float8, s.ready::float8, s.running::float8,
            s.dead::float8, s.oldest_s * 1000 as "oldestMs", s.claim_age_s * 1000 as "claimAgeMs", s.retry_rate as "retryRate",
            s.window_s * 1000 as "windowMs", s.failed::float8 as "failedAttempts", s.attempts::float8,
            s.done_5m::float8 as "done5m", s.dead_5m::float8 as "dead5m"
     from ${schema}.queue_status s left join ${schema}.queue_config c on c.queue = s.queue order by s.queue`,
    [],
  );
}
