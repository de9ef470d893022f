import type { Database } from '../connection/database.ts';
import type { HintChannel } from './hints.ts';
import { channelName } from './hints.ts';

/** Sends the scheduler a hint that something waits. If it fails, the next poll finds the same. */
export function wakeSchedulers(database: Database): Promise<void> {
  return wake(database, 'queue');
}

/** Sends all nodes, of all pools, a hint that work items are ready. If it fails, their next polls find the same. */
export function wakeNodes(database: Database): Promise<void> {
  return wake(database, 'work');
}

async function wake({ query, schema }: Database, channel: HintChannel): Promise<void> {
  await query("select pg_notify($1, '')", [channelName(schema, channel)]).catch(() => []);
}
