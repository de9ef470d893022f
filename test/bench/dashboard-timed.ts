import { readFileSync } from 'node:fs';
import type pg from 'pg';

/** A pool that says how long its statements took, those that begin and end transactions left out. */
export interface TimedPool {
  readonly pool: pg.Pool;
  /** Since it was asked last. */
  readonly take: () => Taken;
}

export interface Taken {
  readonly count: number;
  /** Of all of them, as it was waited for. */
  readonly ms: number;
  /** The processor's time of the server's process: whatever else the machine does, it is the same. */
  readonly cpuMs: number;
}

/** For a pool of one connection, to a server on this machine. */
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
