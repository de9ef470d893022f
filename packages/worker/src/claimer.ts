import type { Loop, Observer } from '@pgqueue/core';
import { PgQueueError, retryPauseMs, startLoop } from '@pgqueue/core';
import type { Unit } from './bundles.ts';
import { unitsOf } from './bundles.ts';
import type { Claims } from './claims.ts';
import type { Hearing } from './pace.ts';
import { createLowWater, createPace } from './pace.ts';

export interface ClaimerParts {
  readonly claims: Claims;
  /** How many it can hold, and how many of those it would take now. */
  readonly capacity: () => number;
  readonly wanted: () => number;
  /** Takes the jobs over, by what uses one slot; does not wait for them. */
  readonly take: (units: readonly Unit[], claimedAt: number) => void;
  readonly hearing: () => Hearing;
  readonly suspectsOnly: boolean;
  readonly observe: Observer;
}

export interface Claimer {
  /**
   * A slot is free: claims at once where the last claim left work behind, and where the node holds nothing any more: a job that was lost
   * with its node may have waited for that.
   */
  readonly slotFreed: (empty: boolean) => void;
  /** Work may have become ready; `released`: behind the low-water mark, too. */
  readonly hint: (released: boolean) => void;
  /** Resolves after the claim under way, whose jobs are still handed over. */
  readonly stop: () => Promise<void>;
  readonly stuckMs: () => number;
}

/** A freed slot, or a registration, ends this wait. */
const parkedMs = 1_000;
/** While it wants few of what it can hold, those that become free within so long are filled by one claim. */
const gatherMs = 5;
const gatherShare = 0.25;

/** A position that none has: suspects are found by themselves, wherever they stand. */
const beyondAll = Number.MAX_SAFE_INTEGER;

/** Keeps the slots full with one statement at a time. */
export function startClaimer(parts: ClaimerParts): Claimer {
  const { claims, capacity, wanted, observe, hearing, suspectsOnly } = parts;
  const pace = createPace();
  const lowWater = createLowWater();
  let more = true;
  let claimedAt = -Infinity;
  let gathering = false;
  const isFew = (count: number): boolean => count <= (capacity() - 1) * gatherShare;

  const step = async (): Promise<number> => {
    gathering = false;
    const free = wanted();
    if (free <= 0) return parkedMs;
    const nowMs = performance.now();
    const gatheredMs = claimedAt + gatherMs - nowMs;
    gathering = gatheredMs > 0 && isFew(free);
    if (gathering) return gatheredMs;
    claimedAt = nowMs;
    const from = suspectsOnly ? beyondAll : lowWater.from(nowMs);
    const claimed = await claims({ max: free, from });
    const units = unitsOf(claimed.jobs);
    const got = units.length;
    const tookMs = performance.now() - nowMs;
    lowWater.saw({ last: claimed.jobs.at(-1)?.position, filled: got >= free, tookMs });
    // one that was lost with its node comes alone, and others may come after it
    const suspects = claimed.jobs.some(({ crashes }) => crashes > 0);
    more = got >= free || suspects;
    if (got > 0) parts.take(units, claimed.claimedAt);
    const waitMs = pace.next({ got, asked: free, nowMs, hearing: hearing() });
    return suspects ? 0 : waitMs;
  };

  const loop: Loop = startLoop({
    step,
    failed: (error, failures) => {
      more = true;
      lowWater.drop();
      if (error instanceof PgQueueError && error.code === 'node_ended') return parkedMs;
      const retryMs = retryPauseMs(failures);
      observe({ type: 'database.error', during: 'claim', error, retryMs });
      return retryMs;
    },
  });

  return {
    slotFreed: (empty) => {
      // while it gathers, it comes by itself
      if (empty || (more && !(gathering && isFew(wanted())))) loop.wake();
    },
    hint: (released) => {
      more = true;
      if (released) lowWater.drop();
      pace.hurry();
      loop.wake();
    },
    stop: loop.stop,
    stuckMs: loop.stuckMs,
  };
}
