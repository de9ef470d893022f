import type { DatabaseHealth, Observer } from '@pgqueue/core';
import type { Loop } from '@pgqueue/core/internal';
import { startLoop } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { HealthReading } from '@pgqueue/postgres/internal';
import { readHealth } from '@pgqueue/postgres/internal';

/**
 * Reads the database's health periodically while a policy needs it. Never fails: a value that can't be read
 * is null.
 */
export interface HealthWatch {
  /** Last reading; null before the first one. */
  readonly health: () => DatabaseHealth | null;
  /** Starts reading at the beginning of a term. */
  readonly start: () => void;
  readonly stop: () => Promise<void>;
}

export interface HealthWatchOptions {
  readonly database: Database;
  readonly observe: Observer;
  /** True if a policy needs the health. Otherwise nothing is read. */
  readonly needed: boolean;
  /** Milliseconds between readings. Default 5000. */
  readonly everyMs?: number;
}

/** Age in milliseconds after which a reading is no longer reported. */
const staleMs = 60_000;

export function createHealthWatch(options: HealthWatchOptions): HealthWatch {
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

/** Measures for how long vacuum has been held back. */
export interface Horizon {
  readonly ageMs: (reading: HealthReading) => number;
}

/** Most readings to remember; older ones are thinned out progressively. */
const momentsMax = 512;

/**
 * Creates a measure of the oldest snapshot's age. A snapshot is as old as the oldest transaction it still
 * sees as running. To date that transaction, each reading records the next transaction id. This needs no
 * privileges, and covers long writes, replication slots and prepared transactions as well as snapshots. A
 * transaction older than the first reading is dated by the start of its session's transaction, if that is
 * visible.
 */
export function createHorizon(): Horizon {
  let moments: readonly Pick<HealthReading, 'readMs' | 'nextXid'>[] = [];
  return {
    ageMs: ({ readMs, nextXid, oldestXid, heldForMs }) => {
      const known = moments;
      moments = thinned([...moments, { readMs, nextXid }]);
      if (oldestXid === null) return 0;
      // first reading at which the oldest transaction had already begun
      const later = known.findIndex((moment) => isBefore(oldestXid, moment.nextXid));
      const moment = known[later];
      if (moment === undefined) return known.length === 0 ? Math.max(0, heldForMs ?? 0) : 0;
      const ageMs = Math.max(0, readMs - moment.readMs);
      return later === 0 ? Math.max(ageMs, heldForMs ?? 0) : ageMs;
    },
  };
}

/** Compares transaction ids modulo 2^32. */
function isBefore(xid: number, other: number): boolean {
  return ((xid - other) | 0) < 0;
}

function thinned<Moment>(moments: readonly Moment[]): readonly Moment[] {
  if (moments.length <= momentsMax) return moments;
  const half = momentsMax / 2;
  return moments.filter((_, index) => index % 2 === 0 || index >= half);
}
