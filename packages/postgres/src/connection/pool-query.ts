import type pg from 'pg';
import { connected } from './connected.ts';

/**
 * Runs `work` on a connection of the pool. If `work` fails, or the connection breaks meanwhile, the
 * connection is not used again. The pool's own `query` leaves its listener on a connection whose client threw
 * at once. A later error on that connection is then thrown where nobody can catch it, and ends the process.
 */
export async function withClient<Result>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<Result>,
): Promise<Result> {
  const client = await connected(pool.connect());
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

/**
 * SQLSTATE of a session that the server ended as idle (`idle_session_timeout`), before it read the statement.
 */
const idleState = '57P05';

/**
 * Runs one statement on a connection of the pool. If the server just ended that connection as idle, the
 * statement is repeated on another one.
 */
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
