import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Database, NodeTasks } from '@pgqueue/postgres';
import { registerNode } from '@pgqueue/postgres';

export interface Registration {
  readonly database: Database;
  readonly node: string;
  readonly tasks: NodeTasks;
  readonly slots: number;
  readonly pool: string;
  readonly heartbeatMs: number;
  readonly lostAfterMs: number;
  readonly observe: Observer;
}

/**
 * Begins an incarnation, and resolves to it. Where another one may be alive under this id, it watches that one's heartbeat:
 * when it moves, two live nodes share an id, and this one gives up; when it stands still for more than two of its intervals,
 * the other one is dead, and what it held is taken back.
 * @throws {PgQueueError} `node_id_in_use`
 */
export async function register(registration: Registration, signal: AbortSignal): Promise<string> {
  const { database, node, observe } = registration;
  const incarnation = randomUUID();
  let seen: string | null = null;
  for (;;) {
    const answer = await registerNode(database, {
      ...registration,
      incarnation,
      software: `pgqueue node ${process.version}`,
      seen,
    });
    if (answer.accepted) {
      observe({ type: 'node.registered', node, incarnation });
      return incarnation;
    }
    if (seen !== null && seen !== answer.otherHeartbeat) {
      throw new PgQueueError(
        'node_id_in_use',
        `another live node has the id "${node}": give each node its own id, or stop the other one`,
        { data: { node } },
      );
    }
    seen = answer.otherHeartbeat;
    await delay(Math.max(50, answer.otherHeartbeatMs / 2), undefined, { signal });
  }
}
