import pg from 'pg';
import { applicationName } from './application-name.ts';
import { connected } from './connected.ts';
import { destroyClient } from './destroy-client.ts';
import { begin, createSessionDefaults } from './session-defaults.ts';
import type { Target } from './target.ts';

/** Options of {@link openLone}. */
export interface LoneOptions {
  readonly connectionString: string;
  /** Not checked here: the code that opened the database has checked it. */
  readonly schema: string;
  readonly applicationName: string;
  /** Longest time for connecting, and for each statement. */
  readonly queryTimeoutMs: number;
  /**
   * Called when an open connection ended by itself; half a second late if another one ended less than a
   * second before.
   */
  readonly onBroken?: () => void;
}

/**
 * One connection, opened by the first statement, and again after any error. Its statements are READ
 * COMMITTED, whatever the default.
 */
export interface Lone extends Target {
  /**
   * Resolves to the process id of the connection's session, as told at connect time: the server's own, or one
   * that a pooler made up. Connects if necessary. Null: none was told.
   */
  readonly pid: () => Promise<number | null>;
  /** Destroys the connection. Never waits for the server. */
  readonly close: () => void;
}

/** Creates a single connection, opened by its first statement. Its statements must not overlap. */
export function openLone(options: LoneOptions): Lone {
  let current: { readonly client: pg.Client; readonly connected: Promise<unknown> } | undefined;

  const drop = (client: pg.Client): boolean => {
    const was = current?.client === client;
    if (was) current = undefined;
    destroyClient(client);
    return was;
  };
  // the next statement opens a new connection, and rejects with what is wrong
  let brokeAt = -Infinity;
  const broken = (client: pg.Client): void => {
    if (!drop(client) || pidOf(client) === null || options.onBroken === undefined) return;
    const again = performance.now() - brokeAt < 1_000;
    brokeAt = performance.now();
    if (again) setTimeout(options.onBroken, 500).unref();
    else options.onBroken();
  };

  const connect = (): NonNullable<typeof current> => {
    const client = new pg.Client({
      connectionString: options.connectionString,
      application_name: applicationName(options.applicationName),
      connectionTimeoutMillis: options.queryTimeoutMs,
      query_timeout: options.queryTimeoutMs,
      keepAlive: true,
    });
    client.on('error', () => broken(client));
    client.on('end', () => broken(client));
    return { client, connected: connected(client.connect()) };
  };
  const using = async <Result>(work: (client: pg.Client) => Result): Promise<Awaited<Result>> => {
    const { client, connected } = (current ??= connect());
    try {
      await connected;
      return await work(client);
    } catch (error) {
      drop(client); // also one that answers: its server may only read
      throw error;
    }
  };

  // the code that opened the database has reported them
  const defaults = createSessionDefaults(
    (config) => using(async (client) => (await client.query<pg.QueryResultRow>(config)).rows),
    () => {},
  );
  const query = async <Row>(text: string, values: readonly unknown[]): Promise<Row[]> => {
    try {
      const unfit = await defaults.unfit();
      return await using(async (client) => {
        if (unfit) await client.query(begin);
        const { rows } = await client.query(text, [...values]);
        if (unfit) await client.query('commit');
        return rows as Row[];
      });
    } catch (error) {
      defaults.failed(error);
      throw error;
    }
  };

  return {
    schema: options.schema,
    query,
    pid: () => using(pidOf),
    close: () => {
      if (current !== undefined) drop(current.client);
    },
  };
}

/** Returns the pid of the session as the driver knows it; a pooler makes up another. Null: it knows none. */
export function pidOf(client: pg.Client): number | null {
  return (client as pg.Client & { readonly processID?: number | null }).processID ?? null;
}
