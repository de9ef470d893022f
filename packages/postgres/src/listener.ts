import { retryPauseMs, startLoop } from '@pgqueue/core';
import pg from 'pg';

/** Where to listen, for what, and whom to tell. */
export interface ListenerOptions {
  /** A direct connection: LISTEN hears nothing through PgBouncer in transaction mode. */
  readonly connectionString: string;
  readonly channels: readonly string[];
  readonly onHint: (channel: string, payload: string) => void;
  readonly onError: (error: unknown) => void;
  readonly applicationName?: string;
  /** How often the connection must prove that it lives. Default 15 s. */
  readonly heartbeatMs?: number;
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
  const { channels, onHint, onError, heartbeatMs = 15_000 } = options;
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
    // what the old connection still has to say is not the new one's failure
    last?.removeAllListeners().on('error', () => {});
    await last?.end().catch(() => {});
  };

  const loop = startLoop({
    step: async () => {
      if (failure !== undefined) throw failure;
      if (client === undefined) await connect();
      else await client.query('select 1');
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
      await loop.stop();
      await disconnect();
    },
  };
}

function newClient({ connectionString, applicationName }: ListenerOptions): pg.Client {
  return new pg.Client({
    connectionString,
    application_name: applicationName ?? 'pgqueue listener',
    connectionTimeoutMillis: 10_000,
    query_timeout: 10_000,
    keepAlive: true,
  });
}
