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

/** One statement on a connection of the pool. */
export async function queryPool<Row extends pg.QueryResultRow>(
  pool: pg.Pool,
  config: pg.QueryConfig,
): Promise<Row[]> {
  return withClient(pool, async (client) => (await client.query<Row>(config)).rows);
}
