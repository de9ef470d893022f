import type { PgQueueError } from '@pgqueue/core';
import type { Loop } from '@pgqueue/core/internal';
import type { Database, DatabaseOptions } from '@pgqueue/postgres';
import { createHeartbeatSender } from './heartbeat-sender.ts';
import { createFence } from './fence.ts';
import type { KnownLeases } from './lease-reconciler.ts';
import { createLeaseReconciler } from './lease-reconciler.ts';
import { loseAll, startHeartbeat } from './heartbeat.ts';
import type { Holding } from '../lease/held-leases.ts';
import type { NodeSettings } from '../node-options.ts';
import { createRegistration } from './registration.ts';
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
  readonly hung: () => number;
  readonly known: KnownLeases;
  readonly draining: AbortSignal;
  /** True if `begin` is repeated while the database can't be reached. */
  readonly insists: boolean;
  readonly onRegistered: () => void;
  readonly onFatal: (error: PgQueueError) => void;
}

export function createPresence(parts: PresenceParts): Presence {
  const { settings, database, marks, holding, draining } = parts;
  const registration = createRegistration(database, settings);
  const sender = createHeartbeatSender({ ...parts, beatNow: () => heartbeat?.wake() });
  const fence = createFence({ settings, marks, holding });
  const reconciler = createLeaseReconciler({
    ...parts.known,
    database,
    node: settings.node,
    incarnation: registration.incarnation,
    holding,
    draining,
    observe: settings.observe,
  });
  let heartbeat: Loop | undefined;
  let stopping = false;

  const register = async (signal: AbortSignal, insists?: boolean): Promise<number> => {
    const sentAt = await registration.register(signal, insists);
    marks.stamp('beat', sentAt);
    fence.beaten();
    return sentAt;
  };
  const standDown = (): void => {
    loseAll(holding, settings.observe);
    fence.disarm();
    sender.standDown();
  };

  return {
    incarnation: registration.incarnation,
    fenced: fence.closed,
    ended: (incarnation) => {
      if (!registration.noteEnded(incarnation)) return;
      standDown();
      heartbeat?.wake();
    },
    begin: async () => {
      await register(draining, parts.insists);
      draining.throwIfAborted(); // stopped meanwhile: leave() removes the row
      sender.start();
      heartbeat = startHeartbeat({
        ...parts,
        sender,
        fence,
        reconciler,
        registration: { ...registration, register },
        onEnded: standDown,
        stopping: () => stopping,
      });
    },
    wake: () => heartbeat?.wake(),
    unsure: () => {
      reconciler.makeDue();
      heartbeat?.wake();
    },
    stuckMs: () => heartbeat?.stuckMs() ?? 0,
    stop: async () => {
      stopping = true;
      await Promise.all([heartbeat?.stop(), sender.stop()]);
      fence.disarm();
    },
    leave: registration.leave,
  };
}
