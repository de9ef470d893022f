// The parts of a run that the makers of faults act on.
import pg from 'pg';
import type { CutProxy } from '../../support/cut-proxy.ts';
import type { PgBouncer } from '../../support/pgbouncer.ts';
import type { Clock } from '../../support/servers/clock.ts';
import type { Disk } from '../../support/servers/disk.ts';
import { benchName } from '../audit.ts';
import type { FaultServer } from '../fault.ts';
import type { Fleet } from '../fleet.ts';
import type { Write } from '../record.ts';

export interface Arena {
  readonly fleet: Fleet;
  readonly server: FaultServer;
  /** Proxies between the server and the processes that don't use the pooler. */
  readonly proxies: Readonly<Record<ProxyName, CutProxy>>;
  readonly pooler:
    | { readonly current: PgBouncer; readonly restart: (downMs: number) => Promise<void> }
    | undefined;
  /** The server's clock; undefined if it can't be set. */
  readonly serverClock: Clock | undefined;
  /** The small disk of the server's write-ahead log; undefined if it is not on one. */
  readonly disk: Disk | undefined;
  readonly write: Write;
}

export type ProxyName = 'workers' | 'schedulers' | 'producers';
export const proxyNames: readonly ProxyName[] = ['workers', 'schedulers', 'producers'];

export function pick<Value>(values: readonly Value[], random: () => number): Value {
  const value = values[Math.floor(random() * values.length)];
  if (value === undefined) throw new Error('nothing to choose from');
  return value;
}

/** Opens a session of the bench's own, past all proxies. */
export async function openSession(server: FaultServer): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: server.adminUrl,
    application_name: benchName,
    connectionTimeoutMillis: 5_000,
  });
  client.on('error', () => {}); // a fault may end it, like any session
  await client.connect();
  return client;
}

export async function askOnce<Row extends object>(
  server: FaultServer,
  text: string,
  values: readonly unknown[] = [],
): Promise<readonly Row[]> {
  const client = await openSession(server);
  try {
    return (await client.query<Row>(text, [...values])).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

export const nothing = (): void => {};
