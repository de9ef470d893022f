import type { Database } from '@pgqueue/postgres';
import { maintainHistory } from '@pgqueue/postgres';
import { until } from './until.ts';

type Maintained = Awaited<ReturnType<typeof maintainHistory>>;

/**
 * Maintains the partitions of history until nothing is in the way; adds up what the calls did. An autovacuum of
 * a partition that takes longer than the call's lock_timeout makes it answer `waits`.
 */
export async function maintained(
  database: Database,
  maintain: () => Promise<Maintained> = () => maintainHistory(database),
): Promise<Maintained> {
  let [created, dropped] = [0, 0];
  return until('history to be maintained', async () => {
    const told = await maintain();
    [created, dropped] = [created + told.created, dropped + told.dropped];
    return told.outcome !== 'waits' && { ...told, created, dropped };
  });
}
