import type { ClaimedJob } from '@pgqueue/core/internal';
import type { Attempt } from '../attempt/attempt.ts';
import type { Unit } from '../lease/unit.ts';

/**
 * Counts the slots of handlers that run on although the time of their jobs is over: they ignore their signal.
 * A handler that goes on after its own transaction is none.
 */
export function hungSlots(attempts: Iterable<Attempt>, units: Iterable<{ readonly unit: Unit }>): number {
  const unitOf = new Map<ClaimedJob, Unit>();
  for (const { unit } of units) for (const job of unit) unitOf.set(job, unit);
  const hung = new Map<unknown, boolean>();
  for (const attempt of attempts) {
    const slot = unitOf.get(attempt.job) ?? attempt;
    hung.set(slot, attempt.over && !attempt.committed && hung.get(slot) !== false);
  }
  return [...hung.values()].filter(Boolean).length;
}
