// A session that listens and stays in a transaction keeps the server from forgetting any NOTIFY. When the queue of them is
// full, each commit with one fails (54000): here after half a MiB, by default after 8 GiB.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineTask, flow, implement } from '@pgqueue/core';
import type { PgQueueEvent } from '@pgqueue/core';
import { createOperator, migrate } from '@pgqueue/postgres';
import { sqlState } from '@pgqueue/postgres/internal';
import { startEmbedded } from '@pgqueue/postgres/testing';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { until } from '../../support/until.ts';

const base = mkdtempSync(join(tmpdir(), 'pgqueue-notify-'));
chmodSync(base, 0o755); // as root the server runs as another user
const data = join(base, 'data');
let server: Awaited<ReturnType<typeof startEmbedded>>;
let admin: pg.Client;

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: server.adminUrl });
  await client.connect();
  return client;
}

beforeAll(async () => {
  server = await startEmbedded({ data });
  admin = await connect();
  await admin.query('alter system set max_notify_queue_pages = 64');
  await admin.end();
  await server.stop();
  server = await startEmbedded({ data });
  admin = await connect();
  await migrate({ connectionString: server.adminUrl });
});
afterAll(async () => {
  await admin.end();
  await server.stop();
  rmSync(base, { recursive: true, force: true });
});

/** Fills the queue of notifications. Returns the session that keeps it full. */
async function fill(): Promise<pg.Client> {
  const listener = await connect();
  for (const text of ['listen something', 'begin', 'select 1']) await listener.query(text);
  const notify = (): Promise<unknown> =>
    admin.query(`select pg_notify('something', n || repeat('x', 7000)) from generate_series(1, 2) n`);
  await expect(
    (async () => {
      for (let calls = 0; calls < 100; calls++) await notify();
    })(),
  ).rejects.toMatchObject({ code: '54000' });
  return listener;
}

const payload = z.object({});
const quick = defineTask({ name: 'quick', payload, retry: { backoff: 'fixed', base: '10ms' } });
const held = defineTask({ name: 'held', payload });

test('with a full queue of notifications all goes on, without hints, and the doctor says so', async () => {
  const listener = await fill();
  const events: PgQueueEvent[] = [];
  const common = {
    connectionString: server.adminUrl,
    observe: (event: PgQueueEvent): void => void events.push(event),
  };
  const operator = createOperator({ connectionString: server.adminUrl });
  const producer = createProducer(common);
  const scheduler = createScheduler(common);
  let started = 0;
  const worker = createWorker({
    ...common,
    tasks: [
      implement(quick, () => {
        started += 1;
        if (started === 1) throw new Error('once');
      }),
      implement(
        held,
        (_, { signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(new Error('aborted')));
          }),
      ),
    ],
  });
  const status = async (id: string): Promise<string | undefined> => (await operator.jobs.get(id))?.status;
  try {
    await Promise.all([scheduler.start(), worker.start()]);
    const { id } = await producer.enqueue(held, {});
    await producer.enqueueMany([quick.job({}), quick.job({})]);
    await until('a job to run', async () => (await status(id)) === 'running');
    expect(await operator.jobs.cancel([id])).toMatchObject([{ verdict: 'signalled' }]);
    await until('it to be cancelled', async () => (await status(id)) === 'cancelled');
    const two = flow('two').step('first', quick.job({}));
    const begun = await producer.start(two.step('second', quick.job({}), { needs: ['first'] }));
    expect(await begun.ended()).toMatchObject({ outcome: 'done' });
    expect((await operator.doctor()).findings).toMatchObject([
      { check: 'full_notify_queue', severity: 'warning' },
    ]);
    await scheduler.stop();
    const errors = events.flatMap((event) => (event.type === 'database.error' ? [event.error] : []));
    expect(errors.filter((error) => sqlState(error) === '54000')).toEqual([]);
  } finally {
    await Promise.all([scheduler.stop(), worker.stop(), producer.close(), operator.close()]);
    await listener.end();
  }
  await until('the queue to be empty', async () => {
    const { rows } = await admin.query<{ used: number }>('select pg_notification_queue_usage() as used');
    return rows[0]?.used === 0;
  });
});
