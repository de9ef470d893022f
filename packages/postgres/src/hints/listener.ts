import { retryPauseMs, startLoop, within } from '@pgqueue/core/internal';
import pg from 'pg';
import { applicationName as shown } from '../connection/application-name.ts';
import { connected } from '../connection/connected.ts';
import { destroyClient } from '../connection/destroy-client.ts';
import { pidOf } from '../connection/single-connection.ts';

/** Connection, channels and callbacks of a listener. */
export interface ListenerOptions {
  /** A direct connection: LISTEN receives nothing through PgBouncer in transaction mode. */
  readonly connectionString: string;
  readonly channels: readonly string[];
  readonly onHint: (channel: string, payload: string) => void;
  readonly onError: (error: unknown) => void;
  readonly applicationName?: string;
  /** Interval of the check that the connection is alive and its server accepts writes. Default 30 s. */
  readonly heartbeatMs?: number;
  /** Longest time for connecting, and for each statement. Default 10 s. */
  readonly queryTimeoutMs?: number;
}

/** A running listener; `stop` closes its connection. */
export interface Listener {
  /** Reports whether hints are received: false without a connection, and behind a pooler, which may drop them. */
  readonly hearing: () => boolean;
  readonly stop: () => Promise<void>;
}

/**
 * Listens for hints. Every loop polls as well, so a lost hint costs time, never work. The listener checks its
 * connection periodically, since a dead connection is silent, and reconnects with backoff. After each connect
 * every channel gets one empty hint, for hints that were missed.
 */
export function startListener(options: ListenerOptions): Listener {
  const { channels, onHint, onError, heartbeatMs = 30_000 } = options;
  let client: pg.Client | undefined;
  let failure: Error | undefined;
  let direct = false;

  const failed = (error: Error): void => {
    failure ??= error;
    loop.wake();
  };

  const connect = async (): Promise<void> => {
    client = newClient(options);
    client.on('error', failed);
    client.on('end', () => failed(new Error('the LISTEN connection ended')));
    client.on('notification', ({ channel, payload }) => onHint(channel, payload ?? ''));
    await connected(client.connect());
    direct = await check(client);
    for (const channel of channels) await client.query(`listen ${pg.escapeIdentifier(channel)}`);
    for (const channel of channels) onHint(channel, '');
  };

  const disconnect = async (): Promise<void> => {
    const last = client;
    client = undefined;
    failure = undefined;
    direct = false;
    if (last === undefined) return;
    // late events of the old connection are not failures of the new one
    last.removeAllListeners().on('error', () => {});
    await within(endMs, last.end());
    destroyClient(last);
  };

  const loop = startLoop({
    step: async () => {
      if (failure !== undefined) throw failure;
      if (client === undefined) await connect();
      else direct = await check(client);
      return heartbeatMs;
    },
    failed: (error, failures) => {
      onError(error);
      void disconnect();
      return retryPauseMs(failures);
    },
  });
  return {
    hearing: () => direct && failure === undefined,
    stop: async () => {
      const stopped = loop.stop();
      // a loop that does not end waits for a dead connection
      if (!(await within(endMs, stopped)) && client !== undefined) destroyClient(client);
      await stopped;
      await disconnect();
    },
  };
}

const endMs = 1_000;

/**
 * Returns whether the connection leads to the server without a pooler in between. Rejects if the server only
 * reads: an old primary sends no hints of the new one.
 */
async function check(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ reads: boolean; pid: number }>(
    `select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as reads, pg_backend_pid() as pid`,
  );
  if (rows[0]?.reads === true) throw new Error('the LISTEN connection leads to a server that only reads');
  return rows[0]?.pid === pidOf(client);
}

function newClient({ connectionString, applicationName, queryTimeoutMs }: ListenerOptions): pg.Client {
  return new pg.Client({
    connectionString,
    application_name: shown(applicationName ?? 'pgqueue listener'),
    connectionTimeoutMillis: queryTimeoutMs ?? 10_000,
    query_timeout: queryTimeoutMs ?? 10_000,
    keepAlive: true,
  });
}
