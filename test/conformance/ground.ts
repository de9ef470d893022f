import { randomBytes } from 'node:crypto';
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ordered, policy } from '@pgqueue/core';
import type { Database, Operator } from '@pgqueue/postgres';
import { createOperator, migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';

/** Schema of pgqueue in the suite: not the usual one, so that a worker that ignores `PGQUEUE_SCHEMA` fails. */
export const schema = 'jobs';

/** A database with pgqueue, a scheduler, and a login for workers. */
export interface Ground {
  /** Connection string of the workers' login. */
  readonly workerUrl: string;
  /** Folder for effects, gates, and the workers' output. */
  readonly folder: string;
  readonly database: Database;
  readonly operator: Operator;
  readonly producer: Producer;
  readonly close: () => Promise<void>;
}

/** Fills a new database of the server that `adminUrl` leads to, and starts a scheduler. */
export async function openGround(adminUrl: string): Promise<Ground> {
  const name = `conformance_${randomBytes(5).toString('hex')}`;
  const admin = openDatabase({ connectionString: adminUrl, connectionsMax: 1 });
  await admin.query(`create database ${name}`, []);
  const connectionString = at(adminUrl, name);
  await migrate({ connectionString, schema, roles: true });
  const database = openDatabase({ connectionString, schema, connectionsMax: 6 });
  await database.query('create schema conformance', []);
  await database.query('create table conformance.written (job uuid not null, value integer not null)', []);
  await database.query(`create role ${name} login password '${name}' in role ${schema}_worker`, []);
  await database.query(`grant usage on schema conformance to ${name}`, []);
  await database.query(`grant select, insert on conformance.written to ${name}`, []);
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-conformance-'));
  const note = (line: string): void => appendFileSync(join(folder, 'scheduler.log'), `${line}\n`);
  const scheduler = createScheduler({
    connectionString,
    schema,
    policy: policy({ gates: [ordered({ when: ({ queue }) => queue.startsWith('ordered') })] }),
    observe: (event) => {
      if ('error' in event) note(`${event.type}: ${String(event.error)}`);
    },
  });
  const producer = createProducer({ connectionString, schema });
  await scheduler.start();
  return {
    workerUrl: at(adminUrl, name, name),
    folder,
    database,
    producer,
    operator: createOperator({ connectionString, schema, pool: database.pool }),
    close: async () => {
      await scheduler.stop();
      await producer.close();
      await database.query(`drop owned by ${name}`, []);
      await database.close();
      await admin.query(`drop database ${name} with (force)`, []);
      await admin.query(`drop role ${name}`, []);
      await admin.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function at(url: string, database: string, login?: string): string {
  const to = new URL(url);
  to.pathname = `/${database}`;
  if (login !== undefined) [to.username, to.password] = [login, login];
  return to.href;
}
