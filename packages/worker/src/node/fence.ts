import { createAlarm } from '../lease/alarm.ts';
import { marginMs } from '../lease/timing.ts';
import type { Holding } from '../lease/held-leases.ts';
import type { NodeSettings } from '../node-options.ts';
import type { SharedMarks } from './thread-protocol.ts';

/**
 * A node that can't say that it lives aborts what it runs before others may take it. It counts by its own monotonic clock, from when
 * the last heartbeat that arrived had been sent: the database can't have got it earlier.
 */
export interface Fence {
  /** A heartbeat has arrived. */
  readonly beaten: () => void;
  /** Its jobs may be others' by now: it must take no more until it has been heard again. */
  readonly closed: () => boolean;
  /** It holds nothing: its incarnation is over. */
  readonly rest: () => void;
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
    if (leftMs() > 0) return alarm.set(leftMs()); // the thread has beaten without this one
    closed = true;
    const running = [...holding].filter(({ live }) => live);
    observe({ type: 'node.fenced', node, jobs: running.length, silentMs: marks.ageMs('beat') });
    for (const held of running) held.abort('node_lost');
  };
  const alarm = createAlarm(ring);

  return {
    beaten: () => {
      closed = leftMs() <= 0; // an answer that took too long tells nothing of now
      if (!closed) alarm.set(leftMs());
    },
    closed: () => closed,
    rest: () => {
      closed = false;
      alarm.clear();
    },
  };
}
