import type { Lane, Snapshot } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';

const none: ReadonlySet<string> = new Set();

/**
 * Returns a snapshot's lanes as if they had just been read, except some, by name. For plans that are not
 * written: if a written plan needs a lane anew, the next tick reads it, and its jobs go then. A retry that has
 * become due since the lane was read holds nothing any more.
 */
export function asIfRead(
  { lanes, nowMs }: Pick<Snapshot, 'lanes' | 'nowMs'>,
  except: ReadonlySet<string> = none,
): readonly Lane[] {
  return lanes.map((lane) => {
    if (lane.fresh || (except.size > 0 && except.has(laneName(lane)))) return lane;
    const { retryDueMs: dueMs } = lane;
    return { ...lane, retryDueMs: dueMs !== null && dueMs > nowMs ? dueMs : null, fresh: true };
  });
}
