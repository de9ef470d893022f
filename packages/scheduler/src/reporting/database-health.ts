import type { DatabaseHealth, Loop, Observer } from '@pgqueue/core';
import { startLoop } from '@pgqueue/core';
import type { Database, HealthReading } from '@pgqueue/postgres';
import { readHealth } from '@pgqueue/postgres';

/** How the database does, read every few seconds while a policy needs it. Never fails: what can't be read is null. */
export interface HealthWatch {
  /** What was read last; null: nothing was yet. */
  readonly health: () => DatabaseHealth | null;
  /** A reign begins. */
  readonly start: () => void;
  readonly stop: () => Promise<void>;
}

export interface HealthOptions {
  readonly database: Database;
  readonly observe: Observer;
  /** Whether a policy needs it: else nothing is read. */
  readonly needed: boolean;
  /** Default 5000. */
  readonly everyMs?: number;
}

/** A reading that is older says nothing any more. */
const staleMs = 60_000;

export function createHealthWatch(options: HealthOptions): HealthWatch {
  const { database, observe, needed, everyMs = 5_000 } = options;
  let loop: Loop | undefined;
  let last: DatabaseHealth | null = null;
  let readAt = -Infinity;

  const begin = (): Loop => {
    const horizon = createHorizon();
    return startLoop({
      step: async (signal) => {
        const reading = await readHealth(database);
        if (signal.aborted) return everyMs;
        const { readMs, deadRows, replicationLagMs } = reading;
        last = Object.freeze({
          readMs,
          deadRows,
          replicationLagMs,
          oldestSnapshotMs: horizon.ageMs(reading),
        });
        readAt = performance.now();
        return everyMs;
      },
      failed: (error) => {
        observe({ type: 'database.error', during: 'health', error, retryMs: everyMs });
        return everyMs;
      },
    });
  };
  const stop = async (): Promise<void> => {
    const ending = loop;
    loop = undefined;
    await ending?.stop();
  };
  return {
    health: () => {
      if (last === null || performance.now() - readAt < staleMs) return last;
      return { readMs: last.readMs, oldestSnapshotMs: null, deadRows: null, replicationLagMs: null };
    },
    start: () => {
      void stop();
      last = null;
      if (needed) loop = begin();
    },
    stop,
  };
}

/** Tells for how long vacuum has been held back. */
export interface Horizon {
  readonly ageMs: (reading: HealthReading) => number;
}

/** So many moments are remembered; of older ones ever fewer. */
const momentsMax = 512;

/**
 * A snapshot is as old as the oldest transaction that it still sees running. When that one was the newest, is remembered: which
 * transaction id came next at each reading. This needs no rights, and counts a long write, a slot or a prepared transaction
 * like a snapshot. Only for what began before the first reading the start of the session's transaction counts, where it may be seen.
 */
export function createHorizon(): Horizon {
  let moments: readonly Pick<HealthReading, 'readMs' | 'nextXid'>[] = [];
  return {
    ageMs: ({ readMs, nextXid, oldestXid, heldForMs }) => {
      const known = moments;
      moments = thinned([...moments, { readMs, nextXid }]);
      if (oldestXid === null) return 0;
      // a transaction that began before this moment's next one
      const later = known.findIndex((moment) => isBefore(oldestXid, moment.nextXid));
      const moment = known[later];
      if (moment === undefined) return known.length === 0 ? Math.max(0, heldForMs ?? 0) : 0;
      const ageMs = Math.max(0, readMs - moment.readMs);
      return later === 0 ? Math.max(ageMs, heldForMs ?? 0) : ageMs;
    },
  };
}

/** In the circle of transaction ids. */
function isBefore(xid: number, other: number): boolean {
  return ((xid - other) | 0) < 0;
}

function thinned<Moment>(moments: readonly Moment[]): readonly Moment[] {
  if (moments.length <= momentsMax) return moments;
  const half = momentsMax / 2;
  return moments.filter((_, index) => index % 2 === 0 || index >= half);
}
