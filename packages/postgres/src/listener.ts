import { retryPauseMs } from '@pgqueue/core';
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
  const stopping = new AbortController();
  let wake: (() => void) | undefined;

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      if (stopping.signal.aborted) return resolve();
      const timer = setTimeout(resolve, ms);
      wake = (): void => {
        clearTimeout(timer);
        resolve();
      };
    });

  const listenOnce = async (connected: () => void): Promise<void> => {
    const client = new pg.Client({
      connectionString: options.connectionString,
      application_name: options.applicationName ?? 'pgqueue listener',
      connectionTimeoutMillis: 10_000,
      query_timeout: 10_000,
      keepAlive: true,
    });
    let failure: unknown;
    client.on('error', (error) => {
      failure = error;
      wake?.();
    });
    client.on('end', () => {
      failure ??= new Error('the LISTEN connection ended');
      wake?.();
    });
    client.on('notification', ({ channel, payload }) => onHint(channel, payload ?? ''));
    try {
      await client.connect();
      for (const channel of channels) await client.query(`listen ${pg.escapeIdentifier(channel)}`);
      connected();
      for (const channel of channels) onHint(channel, '');
      while (!stopping.signal.aborted && failure === undefined) {
        await pause(heartbeatMs);
        if (!stopping.signal.aborted && failure === undefined) await client.query('select 1');
      }
      if (failure !== undefined) throw failure;
    } finally {
      await client.end().catch(() => {});
    }
  };

  const run = async (): Promise<void> => {
    let failures = 0;
    while (!stopping.signal.aborted) {
      try {
        await listenOnce(() => {
          failures = 0;
        });
      } catch (error) {
        failures += 1;
        if (stopping.signal.aborted) return;
        onError(error);
        await pause(retryPauseMs(failures));
      }
    }
  };

  const running = run();
  return {
    stop: async () => {
      stopping.abort();
      wake?.();
      await running;
    },
  };
}
