import type pg from 'pg';

/**
 * One statement on a connection of the pool; where it fails, the connection is not used again. The pool's own `query` leaves its listener on a connection whose
 * client threw at once, and an error that comes on it later is thrown where nobody can catch it: it ended a worker's process.
 */
export async function queryPool<Row extends pg.QueryResultRow>(
  pool: pg.Pool,
  config: pg.QueryConfig,
): Promise<Row[]> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on('error', onError);
  try {
    return (await client.query<Row>(config)).rows;
  } catch (error) {
    broken ??= error instanceof Error ? error : new Error(String(error));
    throw error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}
