// npm run bench:costs -- [--jobs 50000] [--payload 100] [--json FILE]
// Measures what a job costs besides processor time: write-ahead log, table space, network, connections.
// `npm run bench -- --work drain` measures processor time.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { defineTask, implement } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { z } from 'zod';
import { startEmbedded } from '../../packages/postgres/src/testing/server-local.ts';
import { until } from '../support/until.ts';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '50000' },
    payload: { type: 'string', default: '100' },
    json: { type: 'string' },
  },
});
const jobs = Number(values.jobs);
const payloadBytes = Number(values.payload);
if (!(Number.isInteger(jobs) && jobs >= 1_000 && jobs <= 5_000_000))
  throw new Error('--jobs must be 1000 to 5000000');
if (!(Number.isInteger(payloadBytes) && payloadBytes >= 20 && payloadBytes <= 200_000))
  throw new Error('--payload must be 20 to 200000 bytes');

/** Sockets of this process that are connected to the server. */
const sockets = new Set<Socket>();
const connect = Reflect.get(Socket.prototype, 'connect') as (...args: unknown[]) => Socket;
Reflect.set(Socket.prototype, 'connect', function connected(this: Socket, ...args: unknown[]): Socket {
  sockets.add(this);
  return connect.apply(this, args);
});

interface Network {
  readonly toServer: number;
  readonly fromServer: number;
}

/** Sums up the bytes that these sockets have sent and received so far. */
function network(of: ReadonlySet<Socket>): Network {
  let [toServer, fromServer] = [0, 0];
  for (const socket of of) {
    toServer += socket.bytesWritten;
    fromServer += socket.bytesRead;
  }
  return { toServer, fromServer };
}

/**
 * Returns the sockets opened since `before` was taken: they belong to the role that has started meanwhile.
 */
function newcomers(before: ReadonlySet<Socket>): ReadonlySet<Socket> {
  return new Set([...sockets].filter((socket) => !before.has(socket)));
}

async function number(database: Database, text: string): Promise<number> {
  const [row] = await database.query<{ n: number }>(`select (${text})::float8 as n`, []);
  return row?.n ?? NaN;
}

const wal = `pg_current_wal_insert_lsn() - '0/0'`;
const sizeOf = (table: string): string => `pg_total_relation_size('pgqueue.${table}')`;
const historySize = `select coalesce(sum(pg_total_relation_size(i.inhrelid)), 0) from pg_inherits i where i.inhparent = 'pgqueue.history'::regclass`;
const connections = `select case when application_name ~ 'producer' then 'producer' when application_name ~ 'scheduler' then 'scheduler' else 'worker' end as name,
         count(*)::float8 as n from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() group by 1 order by 1`;

type Costs = Readonly<Record<string, number>>;

/** Returns text that compression does not make smaller. */
function randomText(length: number): string {
  return randomBytes(length).toString('base64').slice(0, length);
}

async function measured(database: Database, connectionString: string): Promise<Costs> {
  const task = defineTask({ name: 'cost', payload: z.object({ n: z.number(), pad: z.string() }) });
  let ran = 0;
  const roles: Record<string, ReadonlySet<Socket>> = {};
  const enqueue = async (producer: ReturnType<typeof createProducer>, count: number): Promise<void> => {
    for (let from = 0; from < count; from += 1_000) {
      await producer.enqueueMany(
        Array.from({ length: 1_000 }, (_, at) =>
          task.job({ n: 1_000_000 + from + at, pad: randomText(payloadBytes - 20) }),
        ),
      );
    }
  };

  const before = { wal: await number(database, wal), queue: await number(database, sizeOf('queue')) };
  const none = new Set(sockets);
  const producer = createProducer({ connectionString, notify: false });
  await enqueue(producer, jobs);
  roles['producer'] = newcomers(none);
  const full = {
    wal: await number(database, wal),
    queue: await number(database, sizeOf('queue')),
    indexes: await number(database, `pg_indexes_size('pgqueue.queue')`),
    history: await number(database, historySize),
  };
  const idle = new Set(sockets);
  const scheduler = createScheduler({ connectionString });
  const worker = createWorker({ connectionString, tasks: [implement(task, () => void (ran += 1))] });
  try {
    await Promise.all([scheduler.start(), worker.start()]);
    await until(
      'all jobs',
      async () => ran >= jobs && (await number(database, 'select count(*) from pgqueue.queue')) === 0,
      600_000,
    );
    roles['scheduler and worker'] = newcomers(idle);
    const end = { wal: await number(database, wal), history: await number(database, historySize) };
    const each = (bytes: number): number => Math.round(bytes / jobs);
    const bytes = Object.fromEntries(
      Object.entries(roles).flatMap(([role, its]) => {
        const { toServer, fromServer } = network(its);
        return [
          [`network ${role} to server, B/job`, each(toServer)],
          [`network server to ${role}, B/job`, each(fromServer)],
        ];
      }),
    );
    return {
      'WAL to enqueue, B/job': each(full.wal - before.wal),
      'WAL to schedule, claim and settle, B/job': each(end.wal - full.wal),
      'room of a waiting job, B': each(full.queue - before.queue),
      'of it in indexes, B': each(full.indexes),
      'room in history, B/job': each(end.history - full.history),
      ...bytes,
      ...Object.fromEntries(
        (await database.query<{ name: string; n: number }>(connections, [])).map(({ name, n }) => [
          `connections of a ${name}`,
          n,
        ]),
      ),
    };
  } finally {
    await Promise.all([worker.stop(), scheduler.stop(), producer.close()]);
  }
}

const data = mkdtempSync(join(tmpdir(), 'pgqueue-costs-'));
const server = await startEmbedded({ data });
try {
  const report: Record<string, Costs> = {};
  for (const history of ['kept', 'not kept']) {
    const name = `costs_${history.replace(' ', '_')}`;
    const admin = openDatabase({ connectionString: server.adminUrl });
    await admin.query(`create database ${name}`, []);
    await admin.close();
    const url = new URL(server.adminUrl);
    url.pathname = `/${name}`;
    await migrate({ connectionString: url.href });
    const database = openDatabase({ connectionString: url.href, connectionsMax: 1 });
    if (history === 'not kept')
      await database.query(`insert into pgqueue.queue_config (queue, retention) values ('default', '0')`, []);
    report[`history ${history}`] = await measured(database, url.href);
    await database.close();
  }
  console.table(
    Object.fromEntries(
      Object.keys(Object.values(report)[0] ?? {}).map((name) => [
        name,
        Object.fromEntries(Object.entries(report).map(([one, costs]) => [one, costs[name]])),
      ]),
    ),
  );
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, undefined, 1)}\n`);
} finally {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
}
