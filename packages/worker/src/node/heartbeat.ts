import type { Observer } from '@pgqueue/core';
import type { Loop } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { retryPauseMs, startLoop } from '@pgqueue/core/internal';
import type { HeartbeatSender } from './heartbeat-sender.ts';
import type { Fence } from './fence.ts';
import type { LeaseReconciler } from './lease-reconciler.ts';
import type { Holding } from '../lease/held-leases.ts';
import { applyHeartbeat, liveOf } from '../lease/held-leases.ts';
import type { NodeSettings } from '../node-options.ts';
import type { Registration } from './registration.ts';

export interface HeartbeatParts {
  readonly sender: HeartbeatSender;
  readonly fence: Fence;
  readonly reconciler: LeaseReconciler;
  readonly settings: NodeSettings;
  readonly registration: Omit<Registration, 'leave'>;
  readonly holding: Holding;
  readonly hung: () => number;
  readonly draining: AbortSignal;
  /** Called when the node is registered anew, and can claim again. */
  readonly onRegistered: () => void;
  /** Called when others have ended the incarnation: the node's leases are lost. */
  readonly onEnded: () => void;
  /** True once heartbeats are to end: a heartbeat cut short by that is no failure. */
  readonly stopping: () => boolean;
  /** Called when the node cannot go on: another node has taken its id. */
  readonly onFatal: (error: PgQueueError) => void;
}

/**
 * Sends heartbeats, and receives cancellations and lost leases. A node whose incarnation was ended registers
 * anew. While the database cannot be reached, handlers go on: they keep their leases until they hear
 * otherwise, until their timeouts end, or until the node may be taken for lost (see {@link Fence}).
 */
export function startHeartbeat(parts: HeartbeatParts): Loop {
  const { sender, fence, settings, registration, holding, hung, draining } = parts;
  const { heartbeatMs, observe } = settings;
  // Short enough for several retries before the node is lost.
  const retryMaxMs = Math.min(heartbeatMs, 1_000);

  const beat = async (): Promise<number> => {
    const incarnation = registration.incarnation();
    if (incarnation === undefined) {
      if (draining.aborted) return heartbeatMs;
      await registration.register(draining);
      parts.onRegistered();
      return 0;
    }
    const asked = liveOf(holding);
    const leases = asked.map(({ lease }) => lease);
    const answer = await sender.send({ incarnation, draining: draining.aborted, leases, hung: hung() });
    if (answer.alive) {
      fence.beaten();
      applyHeartbeat(asked, answer, observe);
      if (!draining.aborted) parts.reconciler.lookIfDue();
      return heartbeatMs;
    }
    // declared lost, reset or replaced by others
    if (registration.noteEnded(incarnation)) parts.onEnded();
    return 0;
  };

  return startLoop({
    step: beat,
    failed: (error, failures) => {
      if (parts.stopping()) return heartbeatMs;
      if (draining.aborted && registration.incarnation() === undefined) return heartbeatMs;
      if (error instanceof PgQueueError) {
        parts.onFatal(error);
        return heartbeatMs;
      }
      parts.reconciler.makeDue();
      const retryMs = retryPauseMs(failures, retryMaxMs);
      observe({ type: 'database.error', during: 'heartbeat', error, retryMs });
      return retryMs;
    },
  });
}

/** Reports every lease as lost and aborts its handler: the node's incarnation was ended. */
export function loseAll(holding: Holding, observe: Observer): void {
  const held = liveOf(holding);
  applyHeartbeat(held, { lost: held.map(({ lease }) => lease), cancelled: [] }, observe);
}
