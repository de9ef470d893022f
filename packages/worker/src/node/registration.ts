import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { PgQueueError, retryPauseMs } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres';
import { isTransient, leaveNode, registerNode } from '@pgqueue/postgres';
import type { NodeSettings } from '../node-options.ts';
import { sharedNowMs } from './thread-protocol.ts';

/** A node's one life after another. */
export interface Registry {
  /** The present incarnation; undefined before the first, and between two. */
  readonly incarnation: () => string | undefined;
  /**
   * Begins an incarnation. While another one may be alive under this id, watches its heartbeat: when that moves, two live nodes
   * share an id, and this one gives up; when it stands still for two of its intervals, the other is dead, and replaced.
   * Resolves to when the call that was accepted had been sent, by {@link sharedNowMs}: as a heartbeat counts.
   * @throws {PgQueueError} `node_id_in_use`; what `signal` says when it aborts
   */
  readonly register: (signal: AbortSignal) => Promise<number>;
  /** Others have ended this incarnation; false: it was known already. */
  readonly end: (incarnation: string) => boolean;
  /** Ends it in order: what it still holds is released, uncounted. */
  readonly leave: () => Promise<void>;
}

export function createRegistry(database: Target, settings: NodeSettings): Registry {
  const { node, observe } = settings;
  let current: string | undefined;

  const register: Registry['register'] = async (signal) => {
    const incarnation = randomUUID(); // the same for each call: one whose reply was lost is accepted again
    let seen: string | null = null;
    let sentAt: number;
    for (let failures = 0; ;) {
      signal.throwIfAborted();
      let pauseMs: number;
      try {
        sentAt = sharedNowMs();
        const answer = await registerNode(database, { ...settings, incarnation, software, seen });
        if (answer.accepted) break;
        if (seen !== null && seen !== answer.otherHeartbeat) throw inUse(node);
        seen = answer.otherHeartbeat;
        failures = 0;
        pauseMs = Math.max(25, answer.otherHeartbeatMs / 2);
      } catch (error) {
        if (!isTransient(error)) throw error;
        failures += 1;
        pauseMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'register', error, retryMs: pauseMs });
      }
      await delay(pauseMs, undefined, { signal });
    }
    current = incarnation;
    observe({ type: 'node.registered', node, incarnation });
    return sentAt;
  };

  return {
    incarnation: () => current,
    register,
    end: (incarnation) => {
      if (current !== incarnation) return false;
      current = undefined;
      observe({ type: 'node.ended', node, incarnation });
      return true;
    },
    leave: async () => {
      const last = current;
      current = undefined;
      if (last === undefined) return;
      await leaveNode(database, node, last).catch((error: unknown) => {
        observe({ type: 'database.error', during: 'leave', error });
      });
    },
  };
}

const software = `@pgqueue/worker, node ${process.version}`;

function inUse(node: string): PgQueueError {
  return new PgQueueError(
    'node_id_in_use',
    `another live node has the id "${node}": give each node its own id, or stop the other one`,
    { data: { node } },
  );
}
