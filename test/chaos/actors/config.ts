import { actorName, actorOptions } from '../../support/actors/messages.ts';
import type { Write } from '../record.ts';
import { openHistory } from '../record.ts';

/** What the bench tells its processes. */
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

export const config: ChaosConfig = actorOptions as ChaosConfig;

export function openOwnHistory(): Write {
  return openHistory(config.folder, actorName);
}
