import { migrate } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PgBouncer } from '../../support/pgbouncer.ts';
import { startPgBouncer } from '../../support/pgbouncer.ts';
import { now } from '../../support/actors/messages.ts';
import { long } from '../../support/servers/actors/tasks.ts';
import type { Disk } from '../../support/servers/disk.ts';
import { createDisk } from '../../support/servers/disk.ts';
import type { Base } from '../../support/servers/machine.ts';
import { createBase } from '../../support/servers/machine.ts';
import { holdSnapshot, takeConnections } from '../../support/servers/pressure.ts';
import type { PostgresServer } from '../../support/servers/server.ts';
import { createPostgres } from '../../support/servers/server.ts';
import type { System } from '../../support/servers/system.ts';
import { startSystem } from '../../support/servers/system.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const missing = [lacks('postgresql-15'), lacks('pgbouncer'), lacks('the right to mount')].includes(true);
const mebibyte = 1_024 * 1_024;

let base: Base;
let disks: { readonly data: Disk; readonly wal: Disk };
let server: PostgresServer;
let bouncer: PgBouncer;
let system: System;

beforeAll(async () => {
  if (missing) return;
  base = createBase();
  disks = { data: createDisk(base, 'data', 160 * mebibyte), wal: createDisk(base, 'wal', 112 * mebibyte) };
  const folders = { data: disks.data.folder, wal: disks.wal.folder };
  const settings = { max_connections: '50', max_wal_size: '48MB', min_wal_size: '32MB' };
  server = await createPostgres({ base, name: 'pressed', settings, ...folders });
  await server.start();
  await migrate({ connectionString: server.url });
  bouncer = await startPgBouncer(server.url, 20);
  // one scheduler and one worker go straight to the server
  const urls = { standby: server.url, 'node-2': server.url };
  // longer than any of the faults takes on a busy machine
  const config = { listen: false, lostAfterMs: 60_000 };
  system = await startSystem({ url: bouncer.url, directUrl: () => server.url, urls, config });
});

afterAll(async () => {
  if (missing) return;
  await system.stop();
  await bouncer.stop();
  await server.stop('immediate');
  await base.remove();
});

async function enqueueLong(ms: number): Promise<string> {
  const producer = createProducer({ connectionString: server.url });
  try {
    return (await producer.enqueue(long, { ms, leaseMs: 60_000 }, { timeout: '1m', priority: -1 })).id;
  } finally {
    await producer.close();
  }
}

const errors = (text: string): number => server.log().split(text).length - 1;

/**
 * Fills a disk until the system runs into that, then makes room, and restarts the server if it has stopped.
 */
async function fullDisk(disk: Disk, meet: () => Promise<unknown>): Promise<void> {
  const before = errors('No space left on device');
  disk.fill();
  const met = async (): Promise<boolean> => {
    await meet().catch(() => {}); // the write is refused, or the server is gone
    return errors('No space left on device') > before + 1;
  };
  await until('the server to find the disk full', met);
  disk.free();
  await server.start();
}

/** Uses up the free space inside the tables: rows that are rolled back keep it until a vacuum. */
const useUpRoom = (): Promise<unknown> =>
  server.query(`insert into pgqueue.queue (task, payload)
                select 'short', jsonb_build_object('text', repeat(md5(n::text), 50)) from generate_series(1, 5000) n`);

/** Waits for a fixed time: the fault has to last, and there is no condition to wait for. */
async function passed(ms: number): Promise<void> {
  const since = performance.now();
  await until('the time to pass', () => performance.now() > since + ms, ms + 5_000);
}

const faults: { readonly [what: string]: () => Promise<void> } = {
  'an outage': async () => {
    await server.stop('immediate');
    await passed(4_000);
    await server.start();
  },
  'PgBouncer restarted': async () => {
    const listenPort = Number(new URL(bouncer.url).port);
    await bouncer.stop();
    bouncer = await startPgBouncer(server.url, 20, { listenPort });
  },
  'all connections taken': async () => {
    const pressure = await takeConnections(server.url, { evict: true });
    await until('all of them to be taken', () => pressure.taken() > 40);
    await passed(1_000);
    await pressure.end();
  },
  'the disk of the write-ahead log full': () =>
    fullDisk(disks.wal, () => server.query('select pg_switch_wal()')),
  'the disk of the tables full': () => fullDisk(disks.data, useUpRoom),
};

describe.skipIf(missing)('a server under pressure, directly and by way of PgBouncer', () => {
  test('each time work goes on by itself, nothing is lost, no process dies, and a long job keeps its lease', async () => {
    const snapshot = await holdSnapshot(server.url);
    const job = await enqueueLong(12_000);
    // claims commit asynchronously: one of the last second may be gone with the server
    const old = (): boolean => system.witnessed('long').some(({ atMs }) => atMs < now() - 1_500);
    await until('the long job to have run for a while', old);
    const recoveryMs: { [what: string]: number } = {};
    for (const [what, fault] of Object.entries(faults)) {
      await fault();
      recoveryMs[what] = await system.goesOn(now()).catch((error: unknown) => {
        throw new Error(`after ${what}: ${server.log().slice(-2_000)}`, { cause: error });
      });
    }
    await snapshot.end();
    await system.finish();
    const { acknowledged, ...verdict } = await system.judge();
    console.log(JSON.stringify({ acknowledged, recoveryMs }));
    expect(verdict).toMatchObject({ lost: [], twice: [], dead: 0, died: [] });
    const lines = system.witnessed('long').map(({ what, id }) => `${what} ${id}`);
    expect(lines).toEqual([`start ${job}`, `end ${job}`]);
    expect(system.told(['node.lost', 'node.fenced'])).toEqual([]);
  });
});
