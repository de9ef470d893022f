import { retryPauseMs, startLoop, within } from '@pgqueue/core';
import pg from 'pg';
import { applicationName as shown } from '../connection/application-name.ts';
import { destroyClient } from '../connection/destroy-client.ts';

/** Where to listen, for what, and whom to tell. */
export interface ListenerOptions {
  /** A direct connection: LISTEN hears nothing through PgBouncer in transaction mode. */
  readonly connectionString: string;
  readonly channels: readonly string[];
  readonly onHint: (channel: string, payload: string) => void;
  readonly onError: (error: unknown) => void;
  readonly applicationName?: string;
  /** How often the connection must prove that it lives, and leads to a server that takes writes. Default 20 s. */
  readonly heartbeatMs?: number;
  /** How long it may take to answer that. Default 10 s. */
  readonly queryTimeoutMs?: number;
}

/** A running listener; `stop` closes its connection. */
export interface Listener {
  readonly stop: () => Promise<void>;
}

/**
 * Hears hints. It is only ever a hint: every loop polls as well, so whatever happens here costs time, never work. The
 * connection is asked for a sign of life now and then (a dead one is silent), and made anew with backoff. After each
 * reconnect every channel gets one hint, for those that were missed.
 */
export function startListener(options: ListenerOptions): Listener {
  const { channels, onHint, onError, heartbeatMs = 20_000 } = options;
  let client: pg.Client | undefined;
  let failure: Error | undefined;

  const failed = (error: Error): void => {
    failure ??= error;
    loop.wake();
  };

  const connect = async (): Promise<void> => {
    client = newClient(options);
    client.on('error', failed);
    client.on('end', () => failed(new Error('the LISTEN connection ended')));
    client.on('notification', ({ channel, payload }) => onHint(channel, payload ?? ''));
    await client.connect();
    for (const channel of channels) await client.query(`listen ${pg.escapeIdentifier(channel)}`);
    for (const channel of channels) onHint(channel, '');
  };

  const disconnect = async (): Promise<void> => {
    const last = client;
    client = undefined;
    failure = undefined;
    if (last === undefined) return;
    // what the old connection still has to say is not the new one's failure
    last.removeAllListeners().on('error', () => {});
    await within(endMs, last.end());
    destroyClient(last);
  };

  const loop = startLoop({
    step: async () => {
      if (failure !== undefined) throw failure;
      if (client === undefined) await connect();
      else await check(client);
      return heartbeatMs;
    },
    failed: (error, failures) => {
      onError(error);
      void disconnect();
      return retryPauseMs(failures);
    },
  });
  return {
    stop: async () => {
      const stopped = loop.stop();
      if (!(await within(endMs, stopped)) && client !== undefined) destroyClient(client); // it waits for a dead connection
      await stopped;
      await disconnect();
    },
  };
}

const endMs = 1_000;

/** An old primary that only reads sends no hints of the new one. */
async function check(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ reads: boolean }>(
    `select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as reads`,
  );
  if (rows[0]?.reads === true) throw new Error('the LISTEN connection leads to a server that only reads');
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
