// A user's program, compiled and run in a project that has the published packages and nothing of the repository.
import { defineTask, implement } from '@pgqueue/core';
import { migrate } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { z } from 'zod';

const database = { connectionString: process.env['DATABASE_URL'] ?? '', schema: 'packed' };
const migrations = await migrate(database);

const greet = defineTask({ name: 'greet', payload: z.object({ name: z.string() }), timeout: '30s' });
const ran = Promise.withResolvers<string>();
const handleGreet = implement(greet, ({ name }) => {
  ran.resolve(`hello ${name}`);
});

const producer = createProducer(database);
const scheduler = createScheduler(database);
const failed = { thread: false };
const worker = createWorker({
  ...database,
  tasks: [handleGreet],
  observe: ({ type }) => {
    failed.thread ||= type === 'node.thread_failed';
  },
});
await Promise.all([scheduler.start(), worker.start()]);

const client = new pg.Client(database);
await client.connect();
await client.query('begin');
const { id, outcome } = await producer.with(client).enqueue(greet, { name: 'packed' });
await client.query('commit');
// @ts-expect-error the payload's type follows from the definition
await producer.enqueue(greet, { nobody: true }).catch(() => undefined);

const greeting = await ran.promise;
let thread = false;
for (const deadline = Date.now() + 20_000; !thread && !failed.thread && Date.now() < deadline;) {
  const { rowCount } = await client.query(
    `select from pg_stat_activity where datname = current_database() and application_name = $1`,
    [`pgqueue ${worker.node} heartbeat`.slice(0, 63)],
  );
  thread = rowCount === 1;
}
await worker.stop();
await scheduler.stop();
await producer.close();
const { rows } = await client.query<{ status: string }>('select status from packed.job where id = $1', [id]);
await client.end();
console.log(
  JSON.stringify({ migrations: migrations.length, outcome, greeting, thread, status: rows[0]?.status }),
);
