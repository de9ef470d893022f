import type { PgQueueError } from '@pgqueue/core';
import { within } from '@pgqueue/core/internal';
import type { Database, DatabaseOptions } from '@pgqueue/postgres';
import type { Lease, Listener } from '@pgqueue/postgres/internal';
import {
  channelName,
  checkSchemaVersion,
  openDatabase,
  reach,
  startListener,
  wakes,
} from '@pgqueue/postgres/internal';
import type { Holding } from '../lease/held-leases.ts';
import type { NodeSettings } from '../node-options.ts';
import type { Presence } from './presence.ts';
import { createPresence } from './presence.ts';
import { SharedMarks } from './thread-protocol.ts';

/**
 * Makes a process a node: its incarnation, its heartbeat, and the hints that it receives. Workers and pullers
 * have one.
 */
export interface Membership {
  /** Connections for claims, settlements and extensions. */
  readonly database: Database;
  readonly incarnation: () => string | undefined;
  /** Tokens of claims that are under way, or unanswered. */
  readonly tokens: Set<string>;
  /** True after the node's heartbeats failed for too long and it aborted its jobs: it must not claim. */
  readonly fenced: () => boolean;
  /** Call when a claim was refused: this incarnation was reset, lost or replaced. */
  readonly ended: (incarnation: string) => void;
  /** Milliseconds for which the heartbeat's loop has made no progress. */
  readonly stuckMs: () => number;
  /** True while hints are received; otherwise the claimer must poll more often. */
  readonly hearing: () => boolean;
  /**
   * Registers the node, and starts its heartbeat and its listener.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`
   */
  readonly start: () => Promise<void>;
  /** Tells the scheduler, with the next heartbeat, that the node's slots are gone. */
  readonly drain: () => void;
  readonly draining: AbortSignal;
  /** Stops the heartbeat, releases all leases of the node, and closes its connections. */
  readonly leave: () => Promise<void>;
  /** Only releases all leases of the node, and ends its incarnation; it registers no other one. */
  readonly leaveAtOnce: () => Promise<void>;
  /** Only closes the connections: statements that wait for the database fail. */
  readonly close: () => Promise<void>;
}

export interface MembershipParts {
  readonly settings: NodeSettings;
  readonly databaseOptions: Omit<DatabaseOptions, 'pool'>;
  readonly holding: Holding;
  /** Leases that the node knows of beside `holding`. */
  readonly leases?: () => Iterable<Lease>;
  /** Slots of handlers that run on although the time of their jobs is over. Default: none. */
  readonly hung?: () => number;
  /** Memory that the heartbeat's thread reads. */
  readonly marks?: SharedMarks;
  /**
   * True: a start is repeated while the database can't be reached, until the node drains. False: it fails, and
   * the caller repeats it. Default true.
   */
  readonly insists?: boolean;
  /** Called when work may have become ready. `released`: at any position, not only at the end. */
  readonly onWork: (released: boolean) => void;
  /** Called when the node cannot go on: another node has taken its id. */
  readonly onFatal: (error: PgQueueError) => void;
}

const closeMs = 3_000;

/** Creates a membership; opens no connection before `start`. */
export function createMembership(parts: MembershipParts): Membership {
  const { settings, databaseOptions, holding, marks = new SharedMarks(), insists = true } = parts;
  const { observe, node, heartbeatMs } = settings;
  const onError = (error: Error): void => observe({ type: 'database.error', during: 'idle', error });
  const common = {
    ...databaseOptions,
    applicationName: databaseOptions.applicationName ?? `pgqueue ${node}`,
    onError,
  };
  const database = openDatabase({ ...common, connectionsMax: 4, prepare: settings.listen });
  // Heartbeats have connections of their own, so that they do not wait behind other statements of this
  // process. Their query timeout leaves time for another try.
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
    hung: parts.hung ?? (() => 0),
    known: { tokens, leases: parts.leases ?? (() => []) },
    draining: draining.signal,
    insists,
    onRegistered: () => parts.onWork(true),
    onFatal: parts.onFatal,
  });
  let ears: Listener | undefined;
  let starting: Promise<void> | undefined;

  const close = async (): Promise<void> => {
    await Promise.all([database.close(), vital.close()]);
  };

  const begin = async (): Promise<void> => {
    const first = (): Promise<unknown> => checkSchemaVersion(vital, vital.schema);
    if (insists) await reach(`the worker ${node}`, first, { observe, signal: draining.signal });
    else await first();
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
    leaveAtOnce: () => {
      draining.abort();
      return presence.leave();
    },
    close,
  };
}

function openEars(
  { settings, holding, onWork }: MembershipParts,
  schema: string,
  { wake, unsure }: Pick<Presence, 'wake' | 'unsure'>,
): Listener {
  const { observe, connectionString, node } = settings;
  if (!settings.listen) return { hearing: () => false, stop: () => Promise.resolve() };
  const work = channelName(schema, 'work');
  const cancel = channelName(schema, 'cancel');
  return startListener({
    connectionString,
    applicationName: `pgqueue ${node} listener`,
    channels: [work, cancel],
    onHint: (channel, payload) => {
      if (channel === cancel) {
        if (holding.size > 0) wake(); // the heartbeat's answer says which jobs
      } else if (wakes(payload, settings)) onWork(payload === '');
    },
    onError: (error) => {
      observe({ type: 'database.error', during: 'listen', error });
      unsure();
    },
  });
}
