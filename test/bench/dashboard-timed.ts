import { readFileSync } from 'node:fs';
import type pg from 'pg';

/** A pool that measures its statements, except those that begin and end transactions. */
export interface TimedPool {
  readonly pool: pg.Pool;
  /** Returns the sums since the last call. */
  readonly take: () => Taken;
}

export interface Taken {
  readonly count: number;
  /** Sum of the statements' durations in milliseconds, as the client waited for them. */
  readonly ms: number;
  /**
   * Processor time of the server's process in milliseconds; it hardly depends on the machine's other load.
   */
  readonly cpuMs: number;
}

/**
 * Reads the processor time of the server's process. Needs a pool of one connection, to a server on this
 * machine.
 */
async function processorOf(pool: pg.Pool): Promise<() => number> {
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
  const file = `/proc/${rows[0]?.pid}/schedstat`;
  return () => Number(readFileSync(file, 'utf8').split(' ')[0]) / 1e6;
}

export async function timedPool(pool: pg.Pool): Promise<TimedPool> {
  let taken: number[] = [];
  pool.on('error', () => {}); // the server ends first
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: readonly unknown[]) => unknown;
    const timed = (...args: readonly unknown[]): unknown => {
      const [text] = args;
      const begun = performance.now();
      const result = query(...args);
      const isOwn = typeof text === 'string' && /^(?:begin|commit|rollback|set local)/.test(text);
      if (!isOwn && result instanceof Promise) {
        void result.then(
          () => taken.push(performance.now() - begun),
          () => {},
        );
      }
      return result;
    };
    Object.assign(client, { query: timed });
  });
  const processorMs = await processorOf(pool);
  let beforeMs = processorMs();
  return {
    pool,
    take: () => {
      const all = taken;
      taken = [];
      const now = processorMs();
      const cpuMs = now - beforeMs;
      beforeMs = now;
      return { count: all.length, ms: all.reduce((sum, ms) => sum + ms, 0), cpuMs };
    },
  };
}
