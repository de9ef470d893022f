import type { Candidate, Slots, Snapshot } from '@pgqueue/core';
import { openSlots, own, poolOf } from '@pgqueue/core';
import type { CandidateRow, TickRead } from '@pgqueue/postgres';
import type { Consumption } from './depth.ts';
import { poolsSeen } from './depth.ts';
import type { Misfit } from './skip-ahead.ts';

/** What one tick asks the database for. */
export interface Ask {
  readonly want: number;
  readonly keys: number;
}

/** Keys and jobs that a tick looks at when it expects to have no room: enough to fill what has become free meanwhile. */
const wantMin = 64;
/** Keys that a tick looks at, over all queues: each costs an index lookup or two. */
const keysMax = 500;

/** As much as the last tick had room for, and a little more; the keys are shared out over the queues it saw. */
export function ask(room: number, queues: number, batchMax: number): Ask {
  const want = Math.min(batchMax, Math.max(wantMin, Math.ceil(room * 1.2)));
  return { want, keys: Math.max(4, Math.ceil(Math.min(want, keysMax) / Math.max(1, queues))) };
}

export interface Seen {
  readonly snapshot: Snapshot;
  /** The places before the plan. */
  readonly slots: Slots;
  /** Places of all pools together. */
  readonly room: number;
  readonly queues: number;
  /** Rows that each key was asked for, where it had no start. */
  readonly ofKey: number;
  /** Why a job has no place although its pool has some. */
  readonly misfit: (job: CandidateRow) => Misfit | undefined;
}

export function see(
  read: TickRead,
  asked: Ask,
  options: {
    readonly consumption: Consumption;
    readonly horizonMs: number;
    readonly batchMax: number;
  },
): Seen {
  const { overview } = read;
  const rows = read.candidates;
  const keys = new Map(
    rows.map(({ queue, key, ring }) => [JSON.stringify([queue, key]), { queue, key, ring }]),
  );
  const snapshot: Snapshot = {
    nowMs: overview.now,
    candidates: rows.flatMap(toCandidate),
    keys: [...keys.values()],
    queues: overview.queues,
    pools: poolsSeen(overview, options.consumption.rates(), options.horizonMs),
    batchMax: options.batchMax,
  };
  const slots = openSlots(snapshot);
  return {
    snapshot,
    slots,
    room: Object.keys(snapshot.pools).reduce((sum, pool) => sum + slots.left(pool), 0),
    queues: new Set(rows.map(({ queue }) => queue)).size,
    ofKey: Math.max(1, Math.ceil(asked.want / Math.max(1, keys.size))),
    misfit: (job) => {
      const pool = poolOf(snapshot, job.queue);
      if (slots.left(pool) === 0) return undefined;
      const fit = slots.fit(pool, job);
      if (fit === 'fits') return undefined;
      return fit === 'no_capable_node' ? 'lasting' : 'passing';
    },
  };
}

/**
 * Whether the tick may have left jobs unseen that have a place: the page was cut off, in keys or within a key, in a queue whose
 * pool has places left after the plan.
 */
export function cutOff(seen: Seen, asked: Ask, after: Slots, rows: readonly CandidateRow[]): boolean {
  const lanes = Map.groupBy(rows, ({ queue }) => queue);
  return [...lanes].some(([queue, jobs]) => {
    if (after.left(poolOf(seen.snapshot, queue)) === 0) return false;
    const counts = new Map<string, number>();
    for (const { key, id } of jobs) counts.set(key, (counts.get(key) ?? 0) + (id === null ? 0 : 1));
    return counts.size >= asked.keys || [...counts.values()].some((count) => count >= seen.ofKey);
  });
}

/** The places that are left when a plan has been made. */
export function slotsAfter(
  snapshot: Snapshot,
  dispatched: readonly { readonly id: string; readonly pool: string }[],
): Slots {
  const slots = openSlots(snapshot);
  const jobs = new Map(snapshot.candidates.map((job) => [job.id, job]));
  for (const { id, pool } of dispatched) {
    const job = jobs.get(id);
    if (job !== undefined) slots.take(pool, job);
  }
  return slots;
}

/** Paused queues are not looked at, so their jobs are counted as queues: `paused_queue`. */
export function heldReasons(
  held: Readonly<Record<string, number>>,
  queues: TickRead['overview']['queues'],
): Readonly<Record<string, number>> {
  const paused = Object.values(queues).filter((queue) => queue.paused).length;
  return paused === 0 || own(held, 'paused_queue') !== undefined ? held : { ...held, paused_queue: paused };
}

function toCandidate(row: CandidateRow): readonly Candidate[] {
  const { id, queue, key, seq, priority, task, version, createdMs, attributes } = row;
  if (id === null) return [];
  return [{ id, queue, key, seq, priority, task, version, createdMs, attributes }];
}
