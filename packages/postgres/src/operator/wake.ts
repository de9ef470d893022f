import type { Database } from '../connection/database.ts';
import { channelName } from '../hints/hints.ts';

/** Sends the scheduler a hint that something waits. If it fails, the next poll finds the same. */
export async function wakeSchedulers({ query, schema }: Database): Promise<void> {
  await query("select pg_notify($1, '')", [channelName(schema, 'queue')]).catch(() => []);
}
