import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import type { Lease, Target } from '@pgqueue/postgres/internal';
import { isTransient, lockedState, settleRows, sqlState, takeApart } from '@pgqueue/postgres/internal';
import type { DoneRow, Ended } from '../lease/ended.ts';

/** Settles batches of which every job is done, many with one statement. */
export interface RowSettler {
  readonly settle: (row: DoneRow) => void;
  readonly busy: () => boolean;
  /** Leases of batches that the database has not acknowledged. */
  readonly pending: () => Iterable<Lease>;
}

export interface RowSettlerParts {
  readonly database: Target;
  readonly observe: Observer;
  /** Called when batches were settled. */
  readonly onRows: () => void;
  readonly abandoned: AbortSignal;
  /** Attempts whose replies may have been lost on the way back. */
  readonly unanswered: WeakSet<Ended>;
  /** Called when a batch is settled, or its jobs are passed on to be settled one by one. */
  readonly onAnswered: (row: DoneRow) => void;
  readonly before: (jobs: readonly Lease[], work: () => Promise<void>) => Promise<void>;
  /** Settles jobs one by one, since their batch could not be settled as one. */
  readonly settle: (ended: readonly Ended[]) => void;
  /** Called when the database did not accept a statement. */
  readonly onFailed: () => void;
  readonly onIdle: () => void;
}

/** Limits of one statement: jobs, and length of their results. */
const jobsMax = 2_000;
const bytesMax = 4 * 1_048_576;
/**
 * Shortest time from one statement to the next. A batch has run for longer than that anyway, and each
 * statement is a commit.
 */
const gatherMs = 10;
/** With this many jobs, a statement does not wait for more. */
const manyJobs = 100;

export function createRowSettler(parts: RowSettlerParts): RowSettler {
  let waiting: DoneRow[] = [];
  let sending: readonly DoneRow[] = [];
  let running = false;
  let sentAt = -Infinity;

  const run = async (): Promise<void> => {
    running = true;
    await new Promise((resolve) => setImmediate(resolve)); // batches that end together are settled together
    while (waiting.length > 0) {
      const gatheredMs = sentAt + gatherMs - performance.now();
      if (gatheredMs > 0 && jobsOf(waiting) < manyJobs)
        await new Promise((resolve) => setTimeout(resolve, gatheredMs));
      sentAt = performance.now();
      sending = waiting.splice(0, countOf(waiting));
      await send(parts, sending);
      sending = [];
    }
    running = false;
    parts.onIdle();
  };

  return {
    settle: (row) => {
      waiting.push(row);
      if (!running) void run();
    },
    busy: () => running,
    pending: function* () {
      for (const row of [...sending, ...waiting]) yield* row.leases();
    },
  };
}

function jobsOf(rows: readonly DoneRow[]): number {
  return rows.reduce((jobs, { data }) => jobs + data.length, 0);
}

/** Returns how many of the first batches fit into one statement. */
function countOf(rows: readonly DoneRow[]): number {
  let [jobs, bytes, count] = [0, 0, 0];
  for (const { data } of rows) {
    jobs += data.length;
    for (const text of data) bytes += text?.length ?? 0;
    if (count > 0 && (jobs > jobsMax || bytes > bytesMax)) break;
    count += 1;
  }
  return count;
}

/** Sends batches until the database has answered; never rejects. */
async function send(parts: RowSettlerParts, rows: readonly DoneRow[]): Promise<void> {
  const { database, observe, abandoned, onRows, onAnswered } = parts;
  let repeated = false;
  for (let failures = 1; ; failures += 1) {
    try {
      const settled = await settleRows(database, rows);
      onRows();
      for (const row of rows) {
        if (!settled.has(row.position)) continue;
        row.settled('done');
        onAnswered(row);
      }
      return await singly(
        parts,
        rows.filter(({ position }) => !settled.has(position)),
        repeated,
      );
    } catch (error) {
      if (!isTransient(error)) observe({ type: 'database.error', during: 'settle', error });
      if (!isTransient(error) || sqlState(error) === lockedState) return singly(parts, rows, repeated);
      repeated = true;
      const retryMs = retryPauseMs(failures);
      observe({ type: 'database.error', during: 'settle', error, retryMs });
      parts.onFailed();
      await delay(retryMs, undefined, { signal: abandoned }).catch(() => {});
      if (!abandoned.aborted) continue;
      for (const row of rows) {
        row.settled('failed');
        onAnswered(row);
      }
      return;
    }
  }
}

/**
 * Settles the jobs of batches one by one: the batches were lost or taken apart, or one of their jobs cannot
 * be settled. `repeated`: the reply to an earlier try may have been lost.
 */
async function singly(parts: RowSettlerParts, rows: readonly DoneRow[], repeated: boolean): Promise<void> {
  for (const row of rows) {
    await parts.before(row.leases(), () => takeApart(parts.database, row));
    parts.onAnswered(row);
    const ended = row.ended();
    if (repeated) for (const one of ended) parts.unanswered.add(one);
    parts.settle(ended);
  }
}
