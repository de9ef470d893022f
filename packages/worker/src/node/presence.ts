import type { PgQueueError } from '@pgqueue/core';
import type { Loop } from '@pgqueue/core/internal';
import type { Database, DatabaseOptions } from '@pgqueue/postgres';
import { createBeater } from './heartbeat-sender.ts';
import { createFence } from './fence.ts';
import type { Known } from './lease-reconciler.ts';
import { createForgotten } from './lease-reconciler.ts';
import { loseAll, startHeartbeat } from './heartbeat.ts';
import type { Holding } from '../lease/held-leases.ts';
import type { NodeSettings } from '../node-options.ts';
import { createRegistry } from './registration.ts';
import type { SharedMarks } from './thread-protocol.ts';

/** Keeps a node registered: its incarnations, its heartbeat, and its fence. */
export interface Presence {
  readonly incarnation: () => string | undefined;
  readonly fenced: () => boolean;
  /** Call when others have ended that incarnation. */
  readonly ended: (incarnation: string) => void;
  /**
   * Registers the node, and starts its heartbeat.
   * @throws {PgQueueError} `node_id_in_use`
   */
  readonly begin: () => Promise<void>;
  /** Sends a heartbeat now. */
  readonly wake: () => void;
  /** Call when a failover may have replaced the server: asks it about the leases. */
  readonly unsure: () => void;
  readonly stuckMs: () => number;
  readonly stop: () => Promise<void>;
  readonly leave: () => Promise<void>;
}

export interface PresenceParts {
  readonly settings: NodeSettings;
  readonly databaseOptions: Omit<DatabaseOptions, 'pool'>;
  /** A few connections for this alone. */
  readonly database: Database;
  readonly queryTimeoutMs: number;
  readonly marks: SharedMarks;
  readonly holding: Holding;
  readonly known: Known;
  readonly draining: AbortSignal;
  readonly onRegistered: () => void;
  readonly onFatal: (error: PgQueueError) => void;
}

export function createPresence(parts: PresenceParts): Presence {
  const { settings, database, marks, holding, draining } = parts;
  const registry = createRegistry(database, settings);
  const beater = createBeater({ ...parts, beatNow: () => heartbeat?.wake() });
  const fence = createFence({ settings, marks, holding });
  const forgotten = createForgotten({
    ...parts.known,
    database,
    node: settings.node,
    incarnation: registry.incarnation,
    holding,
    draining,
    observe: settings.observe,
  });
  let heartbeat: Loop | undefined;
  let stopping = false;

  const register = async (signal: AbortSignal): Promise<number> => {
    const sentAt = await registry.register(signal);
    marks.stamp('beat', sentAt);
    fence.beaten();
    return sentAt;
  };
  const rest = (): void => {
    loseAll(holding, settings.observe);
    fence.rest();
    beater.rest();
  };

  return {
    incarnation: registry.incarnation,
    fenced: fence.closed,
    ended: (incarnation) => {
      if (!registry.end(incarnation)) return;
      rest();
      heartbeat?.wake();
    },
    begin: async () => {
      await register(draining);
      draining.throwIfAborted(); // stopped meanwhile: leave() removes the row
      beater.start();
      heartbeat = startHeartbeat({
        ...parts,
        beater,
        fence,
        forgotten,
        registry: { ...registry, register },
        onEnded: rest,
        stopping: () => stopping,
      });
    },
    wake: () => heartbeat?.wake(),
    unsure: () => {
      forgotten.soon();
      heartbeat?.wake();
    },
    stuckMs: () => heartbeat?.stuckMs() ?? 0,
    stop: async () => {
      stopping = true;
      await Promise.all([heartbeat?.stop(), beater.stop()]);
      fence.rest();
    },
    leave: registry.leave,
  };
}
