import { actorName, actorOptions } from '../../support/actors/messages.ts';
import type { Write } from '../record.ts';
import { openHistory } from '../record.ts';

/** Options that the bench passes to its processes. */
export interface ChaosConfig {
  /** Folder of the histories. */
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
  /** True if LISTEN works; false through PgBouncer. */
  readonly listen: boolean;
}

export const config: ChaosConfig = actorOptions as ChaosConfig;

/** Opens this process's history. A scheduler, whose options are those of the package, has the folder in its environment. */
export function openOwnHistory(): Write {
  return openHistory(process.env['PGQUEUE_TEST_HISTORY'] ?? config.folder, actorName);
}
