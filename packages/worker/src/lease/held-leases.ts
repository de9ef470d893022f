import type { Observer } from '@pgqueue/core';
import type { Heartbeat, Lease } from '@pgqueue/postgres';

/** A lease that this process holds, as its heartbeat sees it. */
export interface Held {
  readonly lease: Lease;
  readonly task: string;
  /** Whether it is to be renewed and told of: not settled, nor on its way to it. */
  readonly live: boolean;
  readonly abort: (reason: 'lease_lost' | 'cancelled' | 'node_lost') => void;
}

/** What a node holds; jobs, tokens and all. A job can be in it twice: under the lease that it lost, and under a new one. */
export type Holding = Iterable<Held> & { readonly size: number };

export function both(one: Holding, other: Holding): Holding {
  return {
    get size() {
      return one.size + other.size;
    },
    *[Symbol.iterator]() {
      yield* one;
      yield* other;
    },
  };
}

export function liveOf(holding: Holding): readonly Held[] {
  return [...holding].filter(({ live }) => live);
}

/** Tells what was asked about what became of it. One that was settled meanwhile is gone from the table, and not lost. */
export function applyHeartbeat(
  asked: readonly Held[],
  answer: Pick<Heartbeat, 'lost' | 'cancelled'>,
  observe: Observer,
): void {
  if (answer.lost.length === 0 && answer.cancelled.length === 0) return;
  const lost = new Set(answer.lost.map(nameOf));
  const cancelled = new Set(answer.cancelled);
  for (const held of asked) {
    if (!held.live) continue;
    if (lost.has(nameOf(held.lease))) lose(held, { during: 'heartbeat', observe });
    else if (cancelled.has(held.lease.id)) held.abort('cancelled');
  }
}

/** One string for each lease. */
export function nameOf({ id, token }: Lease): string {
  return `${id} ${token}`;
}

/** A lease that others have taken: nothing that its holder says counts any more. */
export function lose(
  held: Held,
  { during, observe }: { readonly during: 'settle' | 'extend' | 'heartbeat'; readonly observe: Observer },
): void {
  observe({ type: 'job.stale', job: held.lease.id, task: held.task, during });
  held.abort('lease_lost');
}
