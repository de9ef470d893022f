import type { Observer } from '@pgqueue/core';
import type { Loop } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { retryPauseMs, startLoop } from '@pgqueue/core/internal';
import type { ClaimedRow } from '@pgqueue/postgres/internal';
import type { Unit } from '../lease/unit.ts';
import { unitsOf } from '../lease/unit.ts';
import type { Claims } from './claims.ts';
import { createLowWater, createPace } from './poll-interval.ts';

interface Wanted {
  readonly free: number;
  readonly ahead: number;
}

export interface ClaimerParts {
  readonly claims: Claims;
  /** Number of slots. */
  readonly slots: number;
  /** Number of work items that the node can take now, and of batches to prefetch beyond them. */
  readonly wanted: () => Wanted;
  /** Takes over the claimed jobs, grouped by slot; does not wait for them. */
  readonly take: (
    units: readonly Unit[],
    claim: { readonly claimedAt: number; readonly ahead: number },
  ) => void;
  /** Makes a batch of the jobs of one work item. */
  readonly batch: (unit: Unit, size: number) => void;
  /** Asks the scheduler for more: slots have become free, and less was ready than the claim asked for. */
  readonly ask: () => void;
  /** Called when more work is ready than there are slots for; `false`: no more is known to be ready. */
  readonly starved?: (starved: boolean) => void;
  /** True while hints of work are received. */
  readonly hearing: () => boolean;
  readonly observe: Observer;
}

export interface Claimer {
  /**
   * Call when a slot frees. Claims at once if the last claim left work behind, or if the node holds nothing
   * any more (`empty`) and ran a suspect: another one may have waited for it.
   */
  readonly slotFreed: (empty: boolean) => void;
  /**
   * Call when batches were settled. The scheduler is asked for more only after a claim has brought less than
   * it asked for; until then, more work is ready.
   */
  readonly settled: () => void;
  /** Call when work may have become ready. `released`: also below the watermark. */
  readonly hint: (released: boolean) => void;
  /** Stops claiming. Resolves after the claim under way, whose jobs are still handed over. */
  readonly stop: () => Promise<void>;
  readonly stuckMs: () => number;
}

/** Wait while no claim is due; a freed slot or a registration ends it early. */
const parkedMs = 1_000;
/** While few slots are free, slots that free within this time are filled by one claim. */
const gatherMs = 5;
/** After this time without a claim, the scheduler is told of settled batches all the same. */
const askMs = 100;
const gatherShare = 0.25;

/** Groups claimed rows by slot: a batch, the jobs of a bundle, or one job. */
function unitsIn(rows: readonly ClaimedRow[], batch: ClaimerParts['batch']): readonly Unit[] {
  const units = unitsOf(rows.flatMap(({ size, jobs }) => (size === 1 ? jobs : [])));
  if (units.length === rows.length) return units;
  const batches = rows.flatMap(({ size, jobs: [first, ...others] }): Unit[] => {
    if (size === 1 || first === undefined) return [];
    const unit: Unit = [first, ...others];
    batch(unit, size);
    return [unit];
  });
  return [...units, ...batches].toSorted(([a], [b]) => a.position - b.position);
}

function isFew({ free, ahead }: Wanted, slots: number): boolean {
  return free + ahead <= (slots - 1) * gatherShare;
}

/**
 * Reports whether a claim is due. While all slots are busy, half of the prefetched batches last as long as a
 * claim takes; a claim for each batch that leaves would bring one at a time.
 */
function isDue({ free, ahead }: Wanted, slots: number): boolean {
  return free > 0 || (ahead > 0 && ahead * 2 >= slots);
}

/** Reports whether a claim is due. Tells whether slots are missing for work that is ready (`more`). */
function isDueNow({ slots, starved }: ClaimerParts, want: Wanted, more: boolean): boolean {
  const due = isDue(want, slots);
  if (!more) starved?.(false);
  else if (!due) starved?.(true);
  return due;
}

/** Keeps the slots full, with one claim at a time. */
export function startClaimer(parts: ClaimerParts): Claimer {
  const { claims, slots, wanted, observe, hearing } = parts;
  const pace = createPace();
  const lowWater = createLowWater();
  let more = true;
  let claimedAt = -Infinity;
  let gathering = false;
  let short = true;
  let settled = false;
  const ask = (): void => {
    if (settled) parts.ask();
    settled = false;
  };

  const step = async (): Promise<number> => {
    gathering = false;
    const want = wanted();
    const { free, ahead } = want;
    const nowMs = performance.now();
    if (!isDueNow(parts, want, more)) {
      if (!settled) return parkedMs;
      if (nowMs < claimedAt + askMs) return claimedAt + askMs - nowMs;
      ask();
      return parkedMs;
    }
    const gatheredMs = claimedAt + gatherMs - nowMs;
    gathering = gatheredMs > 0 && isFew(want, slots);
    if (gathering) return gatheredMs;
    claimedAt = nowMs;
    const claimed = await claims({ max: free, ahead, ...lowWater.range(nowMs) });
    const units = unitsIn(claimed.rows, parts.batch);
    // A claim that was cut counts as filled, however few rows it has: more work is ready.
    const asked = free + ahead;
    const got = claimed.full ? Math.max(asked, units.length) : units.length;
    // Beyond the free slots the claim took only batches, and may have left single jobs in front of them. So
    // the watermark follows the jobs for the free slots alone.
    const last = units.slice(0, free).at(-1)?.at(-1)?.position;
    if (free > 0) lowWater.saw({ last, filled: got >= free, tookMs: performance.now() - nowMs });
    more = free > 0 ? got >= free : more;
    short = got < asked;
    if (short) ask();
    parts.take(units, { claimedAt: claimed.claimedAt, ahead: claimed.full || got < free ? 0 : ahead });
    const suspect = claimed.rows.some((row) => row.suspect);
    return pace.next({ got, asked, nowMs, hearing: hearing(), suspect });
  };

  const loop: Loop = startLoop({
    step,
    failed: (error, failures) => {
      [more, short] = [true, true];
      lowWater.drop();
      if (error instanceof PgQueueError && error.code === 'node_ended') return parkedMs;
      const retryMs = retryPauseMs(failures);
      observe({ type: 'database.error', during: 'claim', error, retryMs });
      return retryMs;
    },
  });

  return {
    slotFreed: (empty) => {
      // While the loop gathers, it claims by itself when the gathering time is over.
      const want = wanted();
      const due = isDueNow(parts, want, more) && more && !(gathering && isFew(want, slots));
      if (due || (empty && pace.emptied())) loop.wake();
    },
    settled: () => {
      settled = true;
      if (short) ask();
      else loop.wake();
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
