import { defineTask, implement } from '@pgqueue/core';
import type { PgQueueEvent, TaskHandler } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createWorker } from '@pgqueue/worker';
import type { Worker } from '@pgqueue/worker';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { dispatchAll } from '../../support/dispatch-all.ts';
import type { Base } from '../../support/servers/machine.ts';
import { createBase } from '../../support/servers/machine.ts';
import type { PostgresServer } from '../../support/servers/server.ts';
import { createPostgres } from '../../support/servers/server.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const missing = lacks('postgresql-15'); // Debian's server, which a test can stop and start
let base: Base;
let server: PostgresServer;
let database: Database;
let worker: Worker | undefined;
let events: PgQueueEvent[];

beforeAll(async () => {
  if (missing) return;
  base = createBase();
  server = await createPostgres({ base, name: 'crashing' });
  await server.start();
  await migrate({ connectionString: server.url });
  database = openDatabase({ connectionString: server.url });
});
afterEach(async () => {
  await worker?.stop({ drainMs: 0 });
  worker = undefined;
  if (!missing) await database.query('truncate pgqueue.queue, pgqueue.work_queue, pgqueue.history', []);
});
afterAll(async () => {
  if (missing) return;
  await database.close();
  await base.remove();
});

const fast = defineTask({ name: 'fast', payload: z.object({}), timeout: '1h' });
const long = defineTask({ name: 'long', payload: z.object({}), timeout: '1h' });

async function start(tasks: readonly TaskHandler[], concurrency: number): Promise<Worker> {
  events = [];
  worker = createWorker({
    connectionString: server.url,
    tasks,
    concurrency,
    heartbeatMs: 500,
    lostAfterMs: 60_000,
    observe: (event) => events.push(event),
  });
  await worker.start();
  return worker;
}

async function enqueue(task: typeof fast | typeof long, count: number): Promise<void> {
  const producer = createProducer({ connectionString: server.url, notify: false });
  await producer.enqueueMany(Array.from({ length: count }, () => task.job({})));
  await producer.close();
  await dispatchAll(database);
}

async function crash(): Promise<void> {
  await database.query('checkpoint', []); // claims commit asynchronously: those of a moment ago might be forgotten
  await server.stop('immediate');
}

const of = <Type extends PgQueueEvent['type']>(type: Type) =>
  events.filter((event): event is Extract<PgQueueEvent, { readonly type: Type }> => event.type === type);
const outcomes = () =>
  database.query(
    `select task, outcome, tries, crashes, count(*)::integer as n from pgqueue.history group by 1, 2, 3, 4 order by 1`,
    [],
  );
const allDone = (count: number): Promise<unknown> =>
  until(
    `${count} to be done`,
    async () => (await database.query('select from pgqueue.history', [])).length === count,
  );

describe.skipIf(missing)('while the database is away', () => {
  test('settlements wait; with many of them the node claims no more, says so, and goes on when it is back', async () => {
    const gate = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    await enqueue(long, 1);
    await enqueue(fast, 2_500);
    const handlers = [implement(fast, () => gate.promise), implement(long, () => end.promise)];
    const { node } = await start(handlers, 2_501);
    await until('all to run', () => of('job.started').length === 2_501);
    await enqueue(fast, 100); // for later
    await crash();
    gate.resolve();
    await until('it to say so', () => of('settler.full').length === 1);
    expect(of('settler.full')[0]?.pending).toBe(2_500);
    expect(of('job.settled')).toEqual([]);
    await server.start();
    await allDone(2_600);
    expect(of('settler.drained')).toHaveLength(1);
    end.resolve();
    await allDone(2_601);
    expect(await outcomes()).toEqual([
      { task: 'fast', outcome: 'done', tries: 0, crashes: 0, n: 2_600 },
      { task: 'long', outcome: 'done', tries: 0, crashes: 0, n: 1 },
    ]);
    expect(await database.query(`select distinct node from pgqueue.history where task = 'long'`, [])).toEqual(
      [{ node }],
    );
    expect([of('job.stale'), of('node.ended'), of('node.fenced')]).toEqual([[], [], []]);
  });

  test('a few large results are too much, too', async () => {
    const gate = Promise.withResolvers<void>();
    const large = implement(fast, async () => {
      await gate.promise;
      return 'x'.repeat(1_000_000);
    });
    await enqueue(fast, 20);
    await start([large], 20);
    await until('all to run', () => of('job.started').length === 20);
    await crash();
    gate.resolve();
    await until('it to say so', () => of('settler.full').length === 1);
    const [full] = of('settler.full');
    expect(full?.bytes).toBeGreaterThan(16 * 1_048_576);
    await server.start();
    await allDone(20);
    expect(await outcomes()).toMatchObject([{ outcome: 'done', tries: 0, crashes: 0, n: 20 }]);
  });

  test('what was given back meanwhile is ready when it is back, though the lease would last for an hour', async () => {
    let runs = 0;
    const aborting = implement(fast, async (_payload, { signal }) => {
      runs += 1;
      if (runs > 1) return;
      await new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    });
    await enqueue(fast, 1);
    events = [];
    worker = createWorker({
      connectionString: server.url,
      tasks: [aborting],
      heartbeatMs: 100,
      lostAfterMs: 1_000,
      observe: (event) => events.push(event),
    });
    await worker.start();
    await until('it to run', () => runs === 1);
    await crash();
    await until('the fence', () => of('node.fenced').length > 0);
    await server.start();
    await allDone(1); // no scheduler is there: nobody has lost the node
    expect(runs).toBe(2);
    expect(await outcomes()).toMatchObject([{ outcome: 'done', tries: 0, crashes: 0, n: 1 }]);
  });
});
