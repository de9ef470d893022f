// Pressure on a server: connections that others hold, and a snapshot that is held.
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

/** Ends what it began. */
export interface Pressure {
  readonly end: () => Promise<void>;
}

/**
 * Takes every connection that there is, also those that somebody else gives up, until it ends. Those who have one keep it, unless `evict`:
 * then they lose it first.
 */
export async function takeConnections(
  url: string,
  { evict }: { readonly evict: boolean },
): Promise<Pressure & { readonly taken: () => number }> {
  const held = new Set<pg.Client>();
  const stopping = new AbortController();
  const takeOne = async (): Promise<boolean> => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
    client.on('error', () => held.delete(client));
    try {
      await client.connect();
      held.add(client);
      return true;
    } catch {
      return false;
    }
  };
  await takeOne();
  const [first] = held;
  if (first === undefined) throw new Error('there is no connection left to take');
  const others = `select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and application_name <> ''`;
  if (evict) await first.query(others);
  while (await takeOne());
  const keep = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      if (evict && !stopping.signal.aborted) await first.query(others).catch(() => {});
      if (!(await takeOne())) await delay(20);
    }
  };
  const keeping = keep();
  return {
    taken: () => held.size,
    end: async () => {
      stopping.abort();
      await keeping;
      await Promise.all([...held].map((client) => client.end().catch(() => {})));
    },
  };
}

/** An idle transaction whose snapshot keeps vacuum from removing anything that was deleted since. */
export async function holdSnapshot(url: string): Promise<Pressure> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on('error', () => {}); // the server may go away meanwhile
  await client.connect();
  await client.query('begin isolation level repeatable read');
  await client.query('select txid_current(), count(*) from pg_class'); // an id of its own, too
  return { end: () => client.end().catch(() => {}) };
}
