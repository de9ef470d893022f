// Connections that lead nowhere, or to a server that only reads.
import { defineTask, implement } from '@pgqueue/core';
import { openDatabase, startListener } from '@pgqueue/postgres/internal';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
const proxy = opened(() => startCutProxy(bench.test.url));
afterEach(async () => {
  proxy.reset();
  proxy.hold(undefined);
  await bench.clear();
});

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });
const quick = implement(task, () => null);

test('a network that swallows everything keeps nothing from closing', async () => {
  const connectionString = proxy.url;
  const database = openDatabase({ connectionString });
  await database.query('select 1', []);
  const hints: string[] = [];
  const channels = ['pgqueue:work'];
  const listener = startListener({
    connectionString,
    channels,
    onHint: (name) => hints.push(name),
    onError: () => {},
  });
  await until('it to listen', () => hints.length > 0);
  const scheduler = createScheduler({ connectionString });
  await scheduler.start();
  const worker = createWorker({ connectionString, tasks: [quick] });
  await worker.start();
  await until('it to lead', () => scheduler.leads);
  proxy.hold('to-server');
  const asked = database.query('select 2', []).catch((error: unknown) => error);
  await Promise.all([database.close(), listener.stop(), scheduler.stop(), worker.stop({ drainMs: 0 })]);
  expect(await asked).toBeInstanceOf(Error);
});

test('a server that only reads is left, not kept: all go on when there is one that writes', async () => {
  const scheduler = createScheduler({ connectionString: bench.test.url });
  await scheduler.start();
  const worker = await bench.worker([quick]);
  const database = openDatabase({ connectionString: bench.test.url });
  const name = bench.test.name;
  const restart = (): Promise<unknown> =>
    bench.sql(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()`,
      [name],
    );
  try {
    await until('it to lead', () => scheduler.leads);
    await bench.sql(`alter database ${name} set default_transaction_read_only = on`);
    await restart();
    const refused = (during: string) => () =>
      worker
        .of('database.error')
        .some((event) => event.during === during && /read-only/.test(String(event.error)));
    await until('the heartbeat to be refused', refused('heartbeat'));
    await until('claims to be refused', refused('claim'));
    const write = (): Promise<unknown> =>
      database.transaction((client) =>
        client.query(`insert into pgqueue.queue (task, payload) values ('task', '{}')`),
      );
    await expect(write()).rejects.toMatchObject({ code: '25006' });
    // the mode of those sessions never changes: whoever keeps one fails for ever
    await bench.sql('set default_transaction_read_only = off');
    await bench.sql(`alter database ${name} reset default_transaction_read_only`);
    await write();
    await until(
      'it to be done',
      async () => (await bench.sql(`select from pgqueue.history where outcome = 'done'`)).length === 1,
    );
    expect(worker.of('node.registered').length).toBeLessThanOrEqual(2);
  } finally {
    await scheduler.stop();
    await database.close();
  }
});

test('a LISTEN connection that is dead, or leads to a server that only reads, is noticed by its own heartbeat', async () => {
  const errors: string[] = [];
  let hints = 0;
  const listener = startListener({
    connectionString: proxy.url,
    channels: ['pgqueue:work'],
    onHint: () => (hints += 1),
    onError: (error) => errors.push(String(error)),
    heartbeatMs: 100,
    queryTimeoutMs: 300,
  });
  try {
    await until('it to listen', () => hints === 1);
    proxy.hold('to-server');
    await until('the silence to be noticed', () => errors.some((error) => error.includes('timeout')));
    proxy.hold(undefined);
    await until('it to listen again', () => hints === 2);
    await bench.sql(`alter database ${bench.test.name} set default_transaction_read_only = on`);
    proxy.reset();
    await until('the mode to be noticed', () => errors.some((error) => error.includes('only reads')));
    await bench.sql('set default_transaction_read_only = off');
    await bench.sql(`alter database ${bench.test.name} reset default_transaction_read_only`);
    const before = hints;
    await until('it to listen once more', () => hints > before);
    const [noticed, heard] = [errors.length, hints];
    await bench.sql(`select pg_notify('pgqueue:work', '')`);
    await until('it to hear', () => hints > heard);
    expect(errors).toHaveLength(noticed);
  } finally {
    await listener.stop();
  }
});
