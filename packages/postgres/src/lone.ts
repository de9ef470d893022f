import pg from 'pg';
import { applicationName } from './application-name.ts';
import { destroyClient } from './destroy.ts';
import type { Target } from './statements/target.ts';

/** What {@link openLone} takes. */
export interface LoneOptions {
  readonly connectionString: string;
  /** Checked by whoever opened the database first. */
  readonly schema: string;
  readonly applicationName: string;
  /** For connecting, and for each statement. */
  readonly queryTimeoutMs: number;
}

/** One connection, made with the first statement, and anew after any error. */
export interface Lone extends Target {
  /** Never waits for the other side. */
  readonly close: () => void;
}

/** Opens no connection yet. Its statements must not overlap. */
export function openLone(options: LoneOptions): Lone {
  let current: { readonly client: pg.Client; readonly connected: Promise<unknown> } | undefined;

  const drop = (client: pg.Client): void => {
    if (current?.client === client) current = undefined;
    destroyClient(client);
  };

  const connect = (): NonNullable<typeof current> => {
    const client = new pg.Client({
      connectionString: options.connectionString,
      application_name: applicationName(options.applicationName),
      connectionTimeoutMillis: options.queryTimeoutMs,
      query_timeout: options.queryTimeoutMs,
      keepAlive: true,
    });
    client.on('error', () => drop(client)); // the next statement meets a new one, and says what is wrong
    client.on('end', () => drop(client));
    return { client, connected: client.connect() };
  };

  return {
    schema: options.schema,
    query: async <Row>(text: string, values: readonly unknown[]) => {
      const { client, connected } = (current ??= connect());
      try {
        await connected;
        return (await client.query(text, [...values])).rows as Row[];
      } catch (error) {
        drop(client); // also one that answers: it may be a server that only reads
        throw error;
      }
    },
    close: () => {
      if (current !== undefined) drop(current.client);
    },
  };
}
