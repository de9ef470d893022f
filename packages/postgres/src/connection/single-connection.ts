import pg from 'pg';
import { applicationName } from './application-name.ts';
import { destroyClient } from './destroy-client.ts';
import { createSessionDefaults } from './session-defaults.ts';
import type { Target } from './target.ts';

/** What {@link openLone} takes. */
export interface LoneOptions {
  readonly connectionString: string;
  /** Checked by whoever opened the database first. */
  readonly schema: string;
  readonly applicationName: string;
  /** For connecting, and for each statement. */
  readonly queryTimeoutMs: number;
  /** Its connection was there, and has ended by itself; told half a second late where that comes again and again. */
  readonly onBroken?: () => void;
}

/** One connection, made with the first statement, and anew after any error. Its statements are READ COMMITTED, whatever the default. */
export interface Lone extends Target {
  /**
   * Of the session that its connection leads to, as the other side told when it was made: the server's own number of it, or a pooler's invention. Connects
   * where it must. Null: it was not told.
   */
  readonly pid: () => Promise<number | null>;
  /** Never waits for the other side. */
  readonly close: () => void;
}

/** Opens no connection yet. Its statements must not overlap. */
export function openLone(options: LoneOptions): Lone {
  let current: { readonly client: pg.Client; readonly connected: Promise<unknown> } | undefined;

  const drop = (client: pg.Client): boolean => {
    const was = current?.client === client;
    if (was) current = undefined;
    destroyClient(client);
    return was;
  };
  // the next statement meets a new one, and says what is wrong
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
    return { client, connected: client.connect() };
  };
  const using = async <Result>(work: (client: pg.Client) => Result): Promise<Awaited<Result>> => {
    const { client, connected } = (current ??= connect());
    try {
      await connected;
      return await work(client);
    } catch (error) {
      drop(client); // also one that answers: it may be a server that only reads
      throw error;
    }
  };

  // whoever opened the database first has told of them
  const defaults = createSessionDefaults(
    (config) => using(async (client) => (await client.query<pg.QueryResultRow>(config)).rows),
    () => {},
  );
  const query = async <Row>(text: string, values: readonly unknown[]): Promise<Row[]> => {
    try {
      const stricter = await defaults.stricter();
      return await using(async (client) => {
        if (stricter) await client.query('begin isolation level read committed');
        const { rows } = await client.query(text, [...values]);
        if (stricter) await client.query('commit');
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

function pidOf(client: pg.Client): number | null {
  return (client as pg.Client & { readonly processID?: number | null }).processID ?? null;
}
