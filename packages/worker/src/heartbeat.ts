import type { Loop, Observer } from '@pgqueue/core';
import { retryPauseMs, startLoop } from '@pgqueue/core';
import type { Database, Lease } from '@pgqueue/postgres';
import { heartbeatNode } from '@pgqueue/postgres';

export interface HeartbeatParts {
  readonly database: Database;
  readonly node: string;
  readonly heartbeatMs: number;
  readonly lostAfterMs: number;
  readonly incarnation: () => string;
  readonly draining: () => boolean;
  readonly leases: () => readonly Lease[];
  readonly onCancelled: (id: string) => void;
  readonly onLost: (id: string) => void;
  /** The incarnation has ended: everything it held is gone. Resolves when the node is registered anew. */
  readonly onEnded: () => Promise<void>;
  /** No heartbeat got through for so long that others may have taken everything. */
  readonly onSilent: () => void;
  readonly observe: Observer;
}

/** Says that the node lives, on connections that no handler can take; hears of cancellations and lost leases. */
export function startHeartbeat(parts: HeartbeatParts): Loop {
  const { database, node, heartbeatMs, observe } = parts;
  let heardAt = performance.now();

  const beat = async (): Promise<number> => {
    const sentAt = performance.now();
    const answer = await heartbeatNode(database, {
      node,
      incarnation: parts.incarnation(),
      draining: parts.draining(),
      leases: parts.leases(),
    });
    heardAt = sentAt;
    if (!answer.alive) {
      observe({ type: 'node.ended', node, incarnation: parts.incarnation() });
      await parts.onEnded();
      return heartbeatMs;
    }
    for (const id of answer.lost) parts.onLost(id);
    for (const id of answer.cancelled) parts.onCancelled(id);
    return heartbeatMs;
  };

  return startLoop({
    step: beat,
    failed: (error, failures) => {
      const retryMs = retryPauseMs(failures, heartbeatMs);
      observe({ type: 'database.error', during: 'heartbeat', error, retryMs });
      if (performance.now() - heardAt > parts.lostAfterMs - Math.min(1_000, parts.lostAfterMs / 10))
        parts.onSilent();
      return retryMs;
    },
  });
}
