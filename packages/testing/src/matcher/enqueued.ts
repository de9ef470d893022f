import type { Attributes, Backoff } from '@pgqueue/core';
import type { Executor } from '@pgqueue/postgres';

/** A job that waits or runs, with the members that can be expected. */
export interface EnqueuedJob {
  readonly id: string;
  readonly task: string;
  readonly payload: unknown;
  readonly queue: string;
  readonly key: string;
  readonly priority: number;
  readonly attributes: Attributes;
  readonly payloadVersion: number;
  readonly uniqueKey: string | null;
  readonly runAfter: Date | null;
  readonly expiresAt: Date | null;
  /** Milliseconds from the job's creation to `runAfter`. */
  readonly delayMs: number | null;
  readonly timeoutMs: number | null;
  readonly maxTries: number;
  readonly maxCrashes: number;
  readonly backoff: Backoff | null;
}

/**
 * Jobs that have not ended, as one transaction sees them, in the order of their enqueue, and the number of
 * ended jobs.
 */
export interface Enqueued {
  readonly jobs: readonly EnqueuedJob[];
  readonly ended: number;
}

/** Most jobs that are read; a test that enqueues more needs another check. */
const jobsMax = 1_000;

/** A row of texts and numbers only: drivers return other types in different ways. */
interface Row {
  readonly job: string;
  readonly ended: number;
}

interface Facts extends Omit<EnqueuedJob, 'runAfter' | 'expiresAt'> {
  readonly runAfterMs: number | null;
  readonly expiresAtMs: number | null;
}

export async function readEnqueued({ query }: Executor, schema: string): Promise<Enqueued> {
  const rows = await query<Row>(
    `select e.ended, f.job from (
       select ((select count(*) from ${schema}.history) + (select count(*) from ${schema}.dead_letter))::integer as ended
     ) e left join lateral (
       select jsonb_build_object(
         'id', q.id, 'task', q.task, 'payload', q.payload, 'queue', q.queue, 'key', q.key, 'priority', q.priority,
         'attributes', q.attributes, 'payloadVersion', q.payload_version, 'uniqueKey', q.unique_key,
         'runAfterMs', extract(epoch from q.run_after) * 1000, 'expiresAtMs', extract(epoch from q.expires_at) * 1000,
         'delayMs', extract(epoch from q.run_after - q.created) * 1000, 'timeoutMs', extract(epoch from q.timeout) * 1000,
         'maxTries', q.max_tries, 'maxCrashes', q.max_crashes, 'backoff', q.retry)::text as job
       from ${schema}.queue q order by q.seq limit ${jobsMax}
     ) f on true`,
    [],
  );
  const jobs = rows
    .filter(({ job }) => job !== null)
    .map(({ job }) => {
      const { runAfterMs, expiresAtMs, ...facts } = JSON.parse(job) as Facts;
      return { ...facts, runAfter: asDate(runAfterMs), expiresAt: asDate(expiresAtMs) };
    });
  return { jobs, ended: rows[0]?.ended ?? 0 };
}

function asDate(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms);
}
