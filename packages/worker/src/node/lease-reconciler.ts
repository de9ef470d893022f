import type { Observer } from '@pgqueue/core';
import type { Lease, Target } from '@pgqueue/postgres/internal';
import { heldLeases, isTransient, release } from '@pgqueue/postgres/internal';
import type { Holding } from '../lease/held-leases.ts';
import { nameOf } from '../lease/held-leases.ts';
import { wholeShare } from '../lease/timing.ts';

/** Leases and claims that a node still deals with, beside the leases that its handlers hold. */
export interface KnownLeases {
  /** Tokens of claims that are under way, or unanswered. */
  readonly tokens: ReadonlySet<string>;
  /** Leases of running units, and of jobs that are on their way to the database. */
  readonly leases: () => Iterable<Lease>;
}

/**
 * Finds leases that the database attributes to this node although the node is done with them: an asynchronous
 * failover has lost their settlements. A living node's leases last until their timeouts, so these are given
 * back, uncounted, and their jobs run again.
 */
export interface LeaseReconciler {
  /** Starts a look if one is due; does not wait for it. */
  readonly lookIfDue: () => void;
  /** Makes a look due: a failover may have replaced the server. */
  readonly makeDue: () => void;
}

export interface LeaseReconcilerParts extends KnownLeases {
  readonly database: Target;
  readonly node: string;
  readonly incarnation: () => string | undefined;
  readonly holding: Holding;
  readonly draining: AbortSignal;
  readonly observe: Observer;
}

const everyMs = 60_000;

export function createLeaseReconciler(parts: LeaseReconcilerParts): LeaseReconciler {
  const { database, node, observe } = parts;
  let lookAt = performance.now() + everyMs;
  let looking = false;

  const giveBack = async (incarnation: string): Promise<void> => {
    const held = await heldLeases(database, { node, incarnation });
    // Compare only after the answer: jobs claimed after the database looked are not in it, and leases settled
    // since then are gone from the table, so that releasing them changes nothing.
    if (parts.incarnation() !== incarnation || parts.draining.aborted) return;
    const forgotten = unknownOf(held, parts);
    if (forgotten.length === 0) return;
    const given = await release(database, forgotten);
    if (given.size > 0) observe({ type: 'node.forgot', node, jobs: given.size });
  };

  return {
    lookIfDue: () => {
      const incarnation = parts.incarnation();
      if (looking || performance.now() < lookAt || incarnation === undefined) return;
      looking = true;
      const began = performance.now();
      const nextAt = began + everyMs;
      lookAt = nextAt;
      giveBack(incarnation)
        .then(() => {
          if (lookAt === nextAt) lookAt = Math.max(nextAt, began + (performance.now() - began) / wholeShare);
        })
        .catch((error: unknown) => {
          if (isTransient(error)) lookAt = 0; // with the next heartbeat
          observe({ type: 'database.error', during: 'look', error });
        })
        .finally(() => (looking = false));
    },
    makeDue: () => {
      lookAt = 0;
    },
  };
}

function unknownOf(
  held: readonly Lease[],
  { tokens, leases, holding }: LeaseReconcilerParts,
): readonly Lease[] {
  const known = new Set<string>();
  for (const { lease } of holding) known.add(nameOf(lease));
  for (const lease of leases()) known.add(nameOf(lease));
  return held.filter((lease) => !tokens.has(lease.token) && !known.has(nameOf(lease)));
}
