import type { Enqueued, JobRow } from '@pgqueue/core';
import type { Database, Hints } from '@pgqueue/postgres';
import { carriesHint, channelName, columnsToCopy, copyJobs, enqueueJobs } from '@pgqueue/postgres';
import { isNews } from './enqueuer.ts';

/**
 * Writes jobs from outside any transaction of the caller's, and wakes the scheduler: with the commit, where a single job can carry the hint and
 * none went a moment ago; else beside it. A NOTIFY in every enqueue would let one commit wait for the other.
 */
export async function writeOutside(
  { database, hints }: { readonly database: Database; readonly hints: Hints | undefined },
  rows: readonly JobRow[],
  again: boolean,
): Promise<readonly Enqueued[]> {
  if (hints !== undefined && carriesHint(rows, again) && hints.ride()) {
    let sent = false;
    try {
      const enqueued = await enqueueJobs(database, rows, { hint: channelName(database.schema, 'queue') });
      sent = enqueued[0]?.outcome === 'enqueued';
      return enqueued;
    } finally {
      hints.rode(sent);
    }
  }
  const columns = again ? undefined : columnsToCopy(rows);
  const enqueued =
    columns === undefined
      ? await enqueueJobs(database, rows, { again })
      : await copyJobs(database, rows, columns);
  if (isNews(enqueued)) hints?.send();
  return enqueued;
}
