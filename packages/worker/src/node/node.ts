import type { PgQueueError } from '@pgqueue/core';
import { retryPauseMs, within } from '@pgqueue/core';
import type { Database, DatabaseOptions, Lease, Listener } from '@pgqueue/postgres';
import {
  channelName,
  checkSchemaVersion,
  isTransient,
  openDatabase,
  startListener,
  startWaiting,
} from '@pgqueue/postgres';
import { setTimeout as delay } from 'node:timers/promises';
import type { Holding } from '../lease/held-leases.ts';
import type { NodeSettings } from '../node-options.ts';
import type { Presence } from './presence.ts';
import { createPresence } from './presence.ts';
import { SharedMarks } from './thread-protocol.ts';

/** What makes a process a node: its incarnation, its heartbeat, and the hints it hears. Workers and pullers have one. */
export interface Membership {
  /** Claims, settles, extends. */
  readonly database: Database;
  readonly incarnation: () => string | undefined;
  /** Of claims that are under way, or unanswered. */
  readonly tokens: Set<string>;
  /** It could not say that it lives for too long, and has aborted what it ran: it must not claim. */
  readonly fenced: () => boolean;
  /** A claim was refused: this incarnation was reset, lost or replaced. */
  readonly ended: (incarnation: string) => void;
  /** For how long its heartbeat's loop has made no progress. */
  readonly stuckMs: () => number;
  /** Whether hints are heard at present; without, the claimer must look more often. */
  readonly hearing: () => boolean;
  /** @throws {PgQueueError} `schema_version`, `node_id_in_use` */
  readonly start: () => Promise<void>;
  /** From now on the node tells the scheduler that its slots are gone. */
  readonly drain: () => void;
  readonly draining: AbortSignal;
  /** Stops beating, releases what it holds, closes. */
  readonly leave: () => Promise<void>;
  /** Only closes: what waits for the database fails. */
  readonly close: () => Promise<void>;
}

export interface MembershipParts {
  readonly settings: NodeSettings;
  readonly databaseOptions: Omit<DatabaseOptions, 'pool'>;
  readonly holding: Holding;
  /** Leases that it knows of beside those. */
  readonly leases?: () => Iterable<Lease>;
  /** What the heartbeat's thread reads. */
  readonly marks?: SharedMarks;
  /** Work may have become ready; `released`: anywhere, not only at the end. */
  readonly onWork: (released: boolean) => void;
  /** It can't go on: another node has taken its id. */
  readonly onFatal: (error: PgQueueError) => void;
}

const closeMs = 3_000;

/** Opens no connection before `start`. */
export function createMembership(parts: MembershipParts): Membership {
  const { settings, databaseOptions, holding, marks = new SharedMarks() } = parts;
  const { observe, node, heartbeatMs } = settings;
  const onError = (error: Error): void => observe({ type: 'database.error', during: 'idle', error });
  const common = {
    ...databaseOptions,
    applicationName: databaseOptions.applicationName ?? `pgqueue ${node}`,
    onError,
  };
  const database = openDatabase({ ...common, connectionsMax: 4, prepare: settings.listen });
  // whatever else this process asks of the database, its sign of life does not wait behind it; and there is time for another try
  const queryTimeoutMs = Math.max(1_000, Math.min(databaseOptions.queryTimeoutMs ?? 30_000, heartbeatMs));
  const vital = openDatabase({ ...common, connectionsMax: 2, queryTimeoutMs });
  const draining = new AbortController();
  const tokens = new Set<string>();
  const presence = createPresence({
    settings,
    databaseOptions,
    database: vital,
    queryTimeoutMs,
    marks,
    holding,
    known: { tokens, leases: parts.leases ?? (() => []) },
    draining: draining.signal,
    onRegistered: () => parts.onWork(true),
    onFatal: parts.onFatal,
  });
  let ears: Ears | undefined;
  let starting: Promise<void> | undefined;

  const close = async (): Promise<void> => {
    await Promise.all([database.close(), vital.close()]);
  };

  const begin = async (): Promise<void> => {
    await reach(vital, settings, draining.signal);
    await presence.begin();
    ears = openEars(parts, database.schema, presence);
  };

  return {
    database,
    tokens,
    incarnation: presence.incarnation,
    ended: presence.ended,
    fenced: presence.fenced,
    stuckMs: presence.stuckMs,
    hearing: () => ears?.hearing() ?? false,
    start: () => {
      starting = begin();
      return starting;
    },
    draining: draining.signal,
    drain: () => {
      draining.abort();
      presence.wake();
    },
    leave: async () => {
      draining.abort();
      await within(closeMs, Promise.allSettled([starting]));
      await within(closeMs, Promise.all([presence.stop(), ears?.stop()]));
      await within(closeMs, presence.leave());
      await close();
    },
    close,
  };
}

interface Ears {
  readonly hearing: () => boolean;
  readonly stop: () => Promise<void>;
}

function openEars(
  { settings, holding, onWork }: MembershipParts,
  schema: string,
  { wake, unsure }: Pick<Presence, 'wake' | 'unsure'>,
): Ears {
  const { observe, connectionString, node, pool } = settings;
  if (!settings.listen) return { hearing: () => false, stop: () => Promise.resolve() };
  let hearing = false;
  const work = channelName(schema, 'work');
  const cancel = channelName(schema, 'cancel');
  const listener: Listener = startListener({
    connectionString,
    applicationName: `pgqueue ${node} listener`,
    channels: [work, cancel],
    onHint: (channel, forPool) => {
      hearing = true;
      if (channel === cancel) {
        if (holding.size > 0) wake(); // the heartbeat's answer says whose
      } else if (forPool === '' || forPool === pool) onWork(forPool === '');
    },
    onError: (error) => {
      hearing = false;
      observe({ type: 'database.error', during: 'listen', error });
      unsure();
    },
  });
  return { hearing: () => hearing, stop: listener.stop };
}

/** Resolves when the database is there and has a schema that fits. */
async function reach(
  database: Database,
  { observe, node }: NodeSettings,
  signal: AbortSignal,
): Promise<void> {
  const waiting = startWaiting(`the worker ${node}`);
  try {
    for (let failures = 1; ; failures += 1) {
      signal.throwIfAborted();
      try {
        return await checkSchemaVersion(database, database.schema);
      } catch (error) {
        if (!isTransient(error)) throw error;
        waiting.failed(error);
        const retryMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'start', error, retryMs });
        await delay(retryMs, undefined, { signal });
      }
    }
  } finally {
    waiting.done();
  }
}
