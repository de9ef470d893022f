import { Alarm } from '../lease/alarm.ts';
import { marginMs } from '../lease/timing.ts';
import type { Holding } from '../lease/held-leases.ts';
import type { NodeSettings } from '../node-options.ts';
import type { SharedMarks } from './thread-protocol.ts';

/**
 * Aborts the jobs of a node whose heartbeats do not arrive, before others may take them. The node suspects
 * itself here, by its own clock; {@link startHeartbeat} hears whether it was declared lost. The clock is
 * monotonic, and runs from the time at which the last accepted heartbeat was sent: the database cannot have
 * received it earlier. Late settlements are refused elsewhere, by the lease's token (`settle.sql`).
 */
export interface Fence {
  /** Call when a heartbeat has arrived. */
  readonly beaten: () => void;
  /**
   * True while others may have taken this node's jobs: the node must not claim until a heartbeat has arrived.
   */
  readonly closed: () => boolean;
  /** Disarms the fence: the incarnation is over, and the node holds nothing. */
  readonly disarm: () => void;
}

export function createFence({
  settings: { node, lostAfterMs, observe },
  marks,
  holding,
}: {
  readonly settings: NodeSettings;
  readonly marks: SharedMarks;
  readonly holding: Holding;
}): Fence {
  let closed = false;
  const leftMs = (): number => lostAfterMs - marginMs(lostAfterMs) - marks.ageMs('beat');

  const ring = (): void => {
    if (leftMs() > 0) return alarm.set(leftMs()); // the heartbeat thread has sent some since, by itself
    closed = true;
    const running = [...holding].filter(({ live }) => live);
    observe({ type: 'node.fenced', node, jobs: running.length, silentMs: marks.ageMs('beat') });
    for (const held of running) held.abort('node_silent');
  };
  const alarm = new Alarm(ring);

  return {
    beaten: () => {
      closed = leftMs() <= 0; // an answer that took too long says nothing about the present
      if (!closed) alarm.set(leftMs());
    },
    closed: () => closed,
    disarm: () => {
      closed = false;
      alarm.clear();
    },
  };
}
