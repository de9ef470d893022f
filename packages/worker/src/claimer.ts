import { randomUUID } from 'node:crypto';
import type { ClaimedJob, Loop, Observer } from '@pgqueue/core';
import { retryPauseMs, startLoop } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import { claim, nodeEndedState, sqlState } from '@pgqueue/postgres';

export interface ClaimerParts {
  readonly database: Database;
  readonly node: string;
  readonly incarnation: () => string;
  readonly freeSlots: () => number;
  /** Takes the jobs over; does not wait for them. */
  readonly run: (jobs: readonly ClaimedJob[], claimedAt: number) => void;
  readonly onEnded: () => Promise<void>;
  readonly listening: boolean;
  readonly observe: Observer;
}

export interface Claimer extends Loop {
  /** A slot is free: claims at once where there was more than the slots could take. */
  readonly slotFreed: () => void;
  /** Work may have become ready; `released`: behind the low-water mark too. */
  readonly hint: (released: boolean) => void;
}

/** How long an idle claimer waits: it doubles from the first to the last. A listening one is woken by hints. */
const idleMs = { first: 20, lastListening: 2_000, lastPolling: 250 } as const;
/** Released items fall behind the low-water mark; so now and then the claimer looks at all. */
const rescanMs = 1_000;

/**
 * Claims up to the free slots with one statement, from the low-water mark on: new work items always have higher positions, and
 * the scan need not pass what was deleted below it.
 */
export function startClaimer(parts: ClaimerParts): Claimer {
  const { database, node, observe } = parts;
  const lastMs = parts.listening ? idleMs.lastListening : idleMs.lastPolling;
  let lowWater = 0;
  let scannedAt = -Infinity;
  let pauseMs: number = idleMs.first;
  let more = false;

  const claimFrom = async (from: number, max: number): Promise<number> => {
    const claimedAt = performance.now();
    if (from === 0) scannedAt = claimedAt;
    const jobs = await claim(database, {
      node,
      incarnation: parts.incarnation(),
      max,
      token: randomUUID(),
      from,
    });
    lowWater = Math.max(lowWater, (jobs.at(-1)?.position ?? 0) + 1);
    if (jobs.length > 0) parts.run(jobs, claimedAt);
    return jobs.length;
  };

  const step = async (): Promise<number> => {
    const free = parts.freeSlots();
    more = true;
    if (free <= 0) return lastMs; // a freed slot wakes it
    const due = performance.now() - scannedAt >= rescanMs;
    let got = await claimFrom(due ? 0 : lowWater, free);
    if (got < free && !due && performance.now() - scannedAt >= rescanMs)
      got += await claimFrom(0, free - got);
    more = got >= free;
    if (got > 0) pauseMs = idleMs.first;
    if (more) return 0;
    const waitMs = pauseMs;
    pauseMs = Math.min(lastMs, pauseMs * 2);
    return waitMs;
  };

  const loop = startLoop({
    step: async () => {
      try {
        return await step();
      } catch (error) {
        if (sqlState(error) !== nodeEndedState) throw error;
        await parts.onEnded();
        return 0;
      }
    },
    failed: (error, failures) => {
      const retryMs = retryPauseMs(failures);
      observe({ type: 'database.error', during: 'claim', error, retryMs });
      return retryMs;
    },
  });

  return {
    ...loop,
    slotFreed: () => {
      if (more) loop.wake();
    },
    hint: (released) => {
      if (released) scannedAt = -Infinity;
      pauseMs = idleMs.first;
      loop.wake();
    },
  };
}
