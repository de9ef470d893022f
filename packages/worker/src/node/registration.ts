import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { PgQueueError } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import type { Target } from '@pgqueue/postgres/internal';
import { isTransient, leaveNode, registerNode } from '@pgqueue/postgres/internal';
import type { NodeSettings } from '../node-options.ts';
import { sharedNowMs } from './thread-protocol.ts';

/** The successive incarnations of a node. */
export interface Registration {
  /** Present incarnation; undefined before the first, and between two. */
  readonly incarnation: () => string | undefined;
  /**
   * Begins an incarnation. While another one may be alive under this id, watches its heartbeat. If that
   * moves, two live nodes share the id, and this one gives up. If it stands still for two of its intervals,
   * the other node is dead, and is replaced. Resolves to the time at which the accepted call was sent, by
   * {@link sharedNowMs}: the call counts as a heartbeat.
   * @param insists false: a call without an answer fails, and is not repeated. Default true
   * @throws {PgQueueError} `node_id_in_use`; the reason of `signal` when it aborts
   */
  readonly register: (signal: AbortSignal, insists?: boolean) => Promise<number>;
  /** Records that others have ended this incarnation. False: that was known already. */
  readonly noteEnded: (incarnation: string) => boolean;
  /** Ends the incarnation in order: the leases that it still holds are released, uncounted. */
  readonly leave: () => Promise<void>;
}

export function createRegistration(database: Target, settings: NodeSettings): Registration {
  const { node, observe } = settings;
  let current: string | undefined;
  // The same for each call until one is accepted, so that a call whose reply was lost is accepted again.
  let next = randomUUID();

  const register: Registration['register'] = async (signal, insists = true) => {
    const incarnation = next;
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
        if (!insists || !isTransient(error)) throw error;
        failures += 1;
        pauseMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'register', error, retryMs: pauseMs });
      }
      await delay(pauseMs, undefined, { signal });
    }
    current = incarnation;
    next = randomUUID();
    observe({ type: 'node.registered', node, incarnation });
    return sentAt;
  };

  return {
    incarnation: () => current,
    register,
    noteEnded: (incarnation) => {
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
