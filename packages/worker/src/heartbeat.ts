import type { Loop, Observer } from '@pgqueue/core';
import { PgQueueError, retryPauseMs, startLoop } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres';
import { heartbeatNode } from '@pgqueue/postgres';
import type { Holding } from './held.ts';
import { applyHeartbeat, liveOf } from './held.ts';
import type { NodeSettings } from './options.ts';
import type { Registry } from './registry.ts';

export interface HeartbeatParts {
  /** A few connections of its own, with a timeout that is short enough for another try. */
  readonly database: Target;
  readonly settings: NodeSettings & { readonly observe: Observer };
  readonly registry: Registry;
  readonly holding: Holding;
  readonly draining: AbortSignal;
  /** It is registered anew, and can claim again. */
  readonly onRegistered: () => void;
  /** It can't go on: another node has taken its id. */
  readonly onFatal: (error: PgQueueError) => void;
}

/**
 * Says that the node lives, and hears of cancellations and lost leases. A node whose incarnation has been ended registers
 * anew. While the database can't be reached the handlers go on: their leases are theirs until they hear otherwise, or until
 * their timeouts end.
 */
export function startHeartbeat(parts: HeartbeatParts): Loop {
  const { database, settings, registry, holding, draining } = parts;
  const { node, heartbeatMs, observe } = settings;

  const beat = async (): Promise<number> => {
    const incarnation = registry.incarnation();
    if (incarnation === undefined) {
      if (draining.aborted) return heartbeatMs;
      await registry.register(draining);
      parts.onRegistered();
      return heartbeatMs;
    }
    const asked = liveOf(holding);
    const leases = asked.map(({ lease }) => lease);
    const answer = await heartbeatNode(database, { node, incarnation, draining: draining.aborted, leases });
    if (answer.alive) {
      applyHeartbeat(asked, answer, observe);
      return heartbeatMs;
    }
    if (registry.end(incarnation)) loseAll(holding, observe);
    return 0;
  };

  return startLoop({
    step: beat,
    failed: (error, failures) => {
      if (draining.aborted && registry.incarnation() === undefined) return heartbeatMs;
      if (error instanceof PgQueueError) {
        parts.onFatal(error);
        return heartbeatMs;
      }
      const retryMs = retryPauseMs(failures, heartbeatMs);
      observe({ type: 'database.error', during: 'heartbeat', error, retryMs });
      return retryMs;
    },
  });
}

/** The node's incarnation was ended: all that it held is others'. */
export function loseAll(holding: Holding, observe: Observer): void {
  const held = liveOf(holding);
  applyHeartbeat(held, { lost: held.map(({ lease }) => lease), cancelled: [] }, observe);
}
