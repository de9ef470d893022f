import type { AbortReason } from '@pgqueue/core';
import type { Unit } from './unit.ts';

/** What handlers see as `signal.reason`. */
export class AbortedError extends Error {
  override readonly name: string = 'AbortedError';
  readonly code: AbortReason;

  constructor(code: AbortReason) {
    super(`the attempt was aborted: ${code}`);
    this.code = code;
  }
}

/** A handler is stopped this long before its lease ends, so that its settlement still lands in time. */
export function marginMs(leaseMs: number): number {
  return Math.min(1_000, Math.max(0, leaseMs) / 10);
}

/** Whether a lease of the unit ends before it could be used. */
export function isLate(
  unit: Unit,
  { claimedAt }: { readonly claimedAt: number },
  nowMs: number = performance.now(),
): boolean {
  let leaseMs = Infinity;
  for (const job of unit) leaseMs = Math.min(leaseMs, job.leaseMs);
  return nowMs - claimedAt >= leaseMs - marginMs(leaseMs);
}

/** What looks at all work items may take this part of the time: where vacuum can't clear dead rows away, it reads millions of them. */
export const wholeShare = 0.005;
