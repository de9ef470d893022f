import type { JobFacts, Snapshot } from '../../snapshot.ts';
import { compareText, own, poolOf } from '../../snapshot.ts';
import { createHeap } from './heap.ts';

/** Forecast of missed deadlines, and the time when it was made. */
export type Forecast = { readonly atMs: number; readonly counts: Readonly<Record<string, number>> };

/** Validates a saved forecast, which an older release or a person may have written. */
export function isForecast(value: unknown): value is Forecast {
  if (typeof value !== 'object' || value === null || !('atMs' in value) || !('counts' in value)) return false;
  const { atMs, counts } = value;
  if (typeof atMs !== 'number' || typeof counts !== 'object' || counts === null) return false;
  return Object.values(counts).every((count) => typeof count === 'number');
}

interface ForecastOptions {
  readonly deadline: (job: JobFacts) => number | null;
  readonly costOf: (job: JobFacts) => number;
}

/**
 * Forecasts missed deadlines: assigns the visible jobs of each pool, by deadline, to the slot that is free
 * first.
 */
export function forecastMisses(snapshot: Snapshot, { deadline, costOf }: ForecastOptions): Forecast {
  const counts = { with_deadline: 0, late: 0, will_be_late: 0 };
  const waiting = Map.groupBy(
    snapshot.lanes.flatMap(({ jobs }) => jobs),
    ({ queue }) => poolOf(snapshot, queue),
  );
  for (const [pool, jobs] of waiting) {
    const due = jobs
      .flatMap((job) => {
        const at = deadline(job);
        return at === null ? [] : [{ job, at }];
      })
      .toSorted((a, b) => a.at - b.at || a.job.seq - b.job.seq || compareText(a.job.id, b.job.id));
    const start = freeSlots(snapshot, pool, costOf);
    for (const { job, at } of due) {
      counts.with_deadline += 1;
      const from = start();
      const end = from.at + costOf(job);
      from.take(end);
      if (at < snapshot.nowMs) counts.late += 1;
      else if (end > at) counts.will_be_late += 1;
    }
  }
  return { atMs: snapshot.nowMs, counts };
}

type NextSlot = () => { readonly at: number; readonly take: (untilMs: number) => void };

/**
 * Returns a function that gives the slot of a pool that is free first, after all that is in flight. Without
 * slots its time is Infinity.
 */
function freeSlots(
  { pools, inFlight, nowMs }: Snapshot,
  pool: string,
  costOf: ForecastOptions['costOf'],
): NextSlot {
  const slots = (own(pools, pool)?.groups ?? []).reduce((sum, group) => sum + group.slots, 0);
  const taken = inFlight.filter((item) => item.pool === pool);
  const running = taken
    .filter(({ state }) => state === 'running')
    .map((item) => Math.max(nowMs, item.dispatchedMs + costOf(item)))
    .toSorted((a, b) => a - b);
  const times = Array.from({ length: slots }, (_, index) => running[index] ?? nowMs);
  const heap = createHeap(times, (a, b) => a < b);
  const next: NextSlot = () => ({
    at: heap.peek() ?? Infinity,
    take: (untilMs) => heap.replace(untilMs),
  });
  const ready = taken.filter(({ state }) => state === 'ready').toSorted((a, b) => a.seq - b.seq);
  for (const item of ready) {
    const slot = next();
    slot.take(slot.at + costOf(item));
  }
  return next;
}
