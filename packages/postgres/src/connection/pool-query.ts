import type pg from 'pg';

/**
 * Works on a connection of the pool; where that fails, or the connection breaks meanwhile, it is not used again. The pool's own `query` leaves its listener on a
 * connection whose client threw at once, and an error that comes on it later is thrown where nobody can catch it: it ended a worker's process.
 */
export async function withClient<Result>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on('error', onError);
  try {
    return await work(client);
  } catch (error) {
    broken ??= error instanceof Error ? error : new Error(String(error));
    throw error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}

/** The server has ended the session because it was idle, before it read the statement: `idle_session_timeout`. */
const idleState = '57P05';

/** One statement on a connection of the pool. Where that was just ended for being idle, the statement goes to another one. */
export async function queryPool<Row extends pg.QueryResultRow>(
  pool: pg.Pool,
  config: pg.QueryConfig,
): Promise<Row[]> {
  const query = async (): Promise<Row[]> =>
    (await withClient(pool, (client) => client.query<Row>(config))).rows;
  try {
    return await query();
  } catch (error) {
    if ((error as { readonly code?: string } | null)?.code !== idleState) throw error;
    return query();
  }
}
