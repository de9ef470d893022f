import type { Database } from '../connection/database.ts';

/** Jobs by histogram bucket: bucket 0 is up to 1 ms, bucket b up to 1.25^b ms. */
export type Histogram = Readonly<Record<string, number>>;

/** Sums of the jobs that ended within some time. */
export interface ActivitySums {
  readonly done: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly dead: number;
  readonly failures: number;
  readonly busyMs: number;
}

/** Jobs that ended within one bucket of time. */
export interface ActivityBucket extends ActivitySums {
  readonly at: Date;
  readonly waits: Histogram;
  readonly runs: Histogram;
}

/** Jobs of one queue that ended within the whole window. */
export interface QueueActivity extends ActivitySums {
  readonly queue: string;
  /** Histograms of the busiest queues; null for the others. */
  readonly waits: Histogram | null;
  readonly runs: Histogram | null;
}

/** Window and limits of a reading. */
export interface ActivityOptions {
  /** Size of a bucket in seconds: 60, kept for three hours, or 900, kept for eight days. */
  readonly grain: 60 | 900;
  /** Number of buckets, including the one being filled. */
  readonly buckets: number;
  /** Read this queue alone. */
  readonly queue?: string;
  /** Number of queues to return, the busiest first, and how many of them get histograms. */
  readonly queuesMax: number;
  readonly histogramsMax: number;
}

/** The buckets of the last hour or day, as the scheduler's sweep has counted them. */
export interface Activity {
  readonly now: Date;
  readonly from: Date;
  /** Null: nothing was ever counted. */
  readonly countedTo: Date | null;
  /** Buckets in which something ended, oldest first. */
  readonly buckets: readonly ActivityBucket[];
  /** Busiest first. */
  readonly queues: readonly QueueActivity[];
}

const sums = `sum(a.done)::float8 as done, sum(a.cancelled)::float8 as cancelled, sum(a.expired)::float8 as expired,
  sum(a.dead)::float8 as dead, sum(a.failures)::float8 as failures, sum(a.busy_ms) as "busyMs"`;

/** Reads the buckets, a few thousand rows at most, and never history. */
export async function readActivity(database: Database, options: ActivityOptions): Promise<Activity> {
  const { query, schema } = database;
  const { grain, buckets: count, queue = null, queuesMax, histogramsMax } = options;
  const [mark] = await query<{ now: Date; from: Date; countedTo: Date | null }>(
    `select clock_timestamp() as now,
            date_bin($1 * interval '1 second', clock_timestamp(), 'epoch') - ($2 - 1) * $1 * interval '1 second' as "from",
            nullif(m.counted_to, '-infinity') as "countedTo"
     from ${schema}.activity_mark m`,
    [grain, count],
  );
  if (mark === undefined) throw new Error('activity_mark is empty');
  const from = mark.from.toISOString();
  const [buckets, queues] = await Promise.all([
    query<ActivityBucket>(
      `select a.at, a.done::float8 as done, a.cancelled::float8 as cancelled, a.expired::float8 as expired, a.dead::float8 as dead,
              a.failures::float8 as failures, a.busy_ms as "busyMs", a.waits, a.runs
       from ${schema}.activity a where a.grain = $1 and a.at >= $2::timestamptz and a.queue = coalesce($3, '') order by a.at`,
      [grain, from, queue],
    ),
    query<Omit<QueueActivity, 'waits' | 'runs'>>(
      `select a.queue, ${sums} from ${schema}.activity a
       where a.grain = $1 and a.at >= $2::timestamptz and a.queue <> '' and ($3::text is null or a.queue = $3)
       group by a.queue order by sum(a.done) + sum(a.dead) desc, a.queue limit $4`,
      [grain, from, queue, queuesMax],
    ),
  ]);
  const histograms = await readHistograms(database, {
    grain,
    from,
    queues: queues.slice(0, histogramsMax).map(({ queue }) => queue),
  });
  return {
    ...mark,
    buckets,
    queues: queues.map((row) => ({
      ...row,
      waits: histograms.get(row.queue)?.waits ?? null,
      runs: histograms.get(row.queue)?.runs ?? null,
    })),
  };
}

async function readHistograms(
  { query, schema }: Database,
  {
    grain,
    from,
    queues,
  }: { readonly grain: number; readonly from: string; readonly queues: readonly string[] },
): Promise<ReadonlyMap<string, { readonly waits: Histogram; readonly runs: Histogram }>> {
  if (queues.length === 0) return new Map();
  const rows = await query<{ queue: string; waits: Histogram; runs: Histogram }>(
    `select n.queue,
       (select coalesce(jsonb_object_agg(w.key, w.n), '{}') from (
          select e.key, sum(e.value::float8) as n from ${schema}.activity a, jsonb_each_text(a.waits) e
          where a.grain = $1 and a.at >= $2::timestamptz and a.queue = n.queue group by e.key) w) as waits,
       (select coalesce(jsonb_object_agg(r.key, r.n), '{}') from (
          select e.key, sum(e.value::float8) as n from ${schema}.activity a, jsonb_each_text(a.runs) e
          where a.grain = $1 and a.at >= $2::timestamptz and a.queue = n.queue group by e.key) r) as runs
     from unnest($3::text[]) n (queue)`,
    [grain, from, queues],
  );
  return new Map(rows.map((row) => [row.queue, row]));
}

/** Adds up histograms. */
export function addHistograms(histograms: Iterable<Histogram>): Histogram {
  const all: Record<string, number> = {};
  for (const histogram of histograms) {
    for (const [bucket, jobs] of Object.entries(histogram)) all[bucket] = (all[bucket] ?? 0) + jobs;
  }
  return all;
}

/**
 * Returns the time in milliseconds that a share (0 to 1) of the jobs does not exceed, to within 12 %; null if
 * there are no jobs.
 */
export function quantileMs(histogram: Histogram, share: number): number | null {
  const buckets = Object.entries(histogram)
    .map(([bucket, jobs]) => [Number(bucket), jobs] as const)
    .toSorted(([a], [b]) => a - b);
  const total = buckets.reduce((sum, [, jobs]) => sum + jobs, 0);
  let left = Math.max(1, Math.ceil(total * share));
  for (const [bucket, jobs] of buckets) {
    left -= jobs;
    // the middle of the bucket, on a logarithmic scale
    if (left <= 0) return bucket === 0 ? 1 : 1.25 ** (bucket - 0.5);
  }
  return null;
}
