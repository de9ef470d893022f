import type { AbortReason } from '@pgqueue/core';
import type { Unit } from './unit.ts';

/** Reason of an aborted signal: handlers see it as `signal.reason`. */
export class AbortedError extends Error {
  override readonly name: string = 'AbortedError';
  readonly code: AbortReason;

  constructor(code: AbortReason) {
    super(`the attempt was aborted: ${code}`);
    this.code = code;
  }
}

/**
 * Returns how long before the end of its lease a handler is stopped, so that its settlement still lands in
 * time: a tenth of the lease, up to 1 s.
 */
export function marginMs(leaseMs: number): number {
  return Math.min(1_000, Math.max(0, leaseMs) / 10);
}

/** Reports whether a lease of the unit ends before it could be used. */
export function isLate(
  unit: Unit,
  { claimedAt }: { readonly claimedAt: number },
  nowMs: number = performance.now(),
): boolean {
  let leaseMs = Infinity;
  for (const job of unit) leaseMs = Math.min(leaseMs, job.leaseMs);
  return nowMs - claimedAt >= leaseMs - marginMs(leaseMs);
}

/**
 * Share of the time that statements over all work items may take: when vacuum cannot remove dead rows, they
 * read millions of them.
 */
export const wholeShare = 0.005;
