import type { Write } from '../record.ts';
import { openHistory } from '../record.ts';

/** What the bench tells its processes: one JSON value in the environment, PGQUEUE_CHAOS. */
export interface ChaosConfig {
  /** Where histories go. */
  readonly folder: string;
  readonly seed: number;
  readonly poisonShare: number;
  /** Producers: jobs a second. */
  readonly perSecond: number;
  /** Workers. */
  readonly concurrency: number;
  readonly heartbeatMs: number;
  readonly lostAfterMs: number;
  /** Schedulers. */
  readonly schedulerLeaseMs: number;
  /** Whether LISTEN works: not through PgBouncer. */
  readonly listen: boolean;
}

export const config: ChaosConfig = JSON.parse(process.env['PGQUEUE_CHAOS'] ?? '{}') as ChaosConfig;
export const actorName: string = process.env['PGQUEUE_TEST_NAME'] ?? 'actor';

export function openOwnHistory(): Write {
  return openHistory(config.folder, actorName);
}
