// npm run bench:homes
// Measures what numbers and homes cost an enqueue of one job, side by side on one server: without a number, with one, and
// through a router's check. And what the number costs an id that SQL makes.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineTask } from '@pgqueue/core';
import { createOperator, migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { createRoutedProducer } from '@pgqueue/producer/internal';
import { z } from 'zod';
import { startEmbedded } from '../../packages/postgres/src/testing/server-local.ts';

const rounds = 15;
const jobsARound = 400;
const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });

const data = mkdtempSync(join(tmpdir(), 'pgqueue-homes-'));
const server = await startEmbedded({ data });
const schemas = ['alone', 'numbered', 'routed'];
const connectionString = server.adminUrl;
for (const [number, schema] of schemas.entries()) {
  await migrate({ connectionString, schema });
  const operator = createOperator({ connectionString, schema });
  if (number > 0) await operator.installation.init({ number, name: schema });
  await operator.close();
}
const producers = schemas.map((schema) => {
  const options = { connectionString, schema, connectionsMax: 1, notify: false };
  return schema === 'routed' ? createRoutedProducer(options, () => 0) : createProducer(options);
});

/** Milliseconds of one job, each awaited before the next. */
async function round(producer: Producer): Promise<number> {
  const began = performance.now();
  for (let n = 0; n < jobsARound; n += 1) await producer.enqueue(task, { n }, { key: 'acme' });
  return (performance.now() - began) / jobsARound;
}

const middle = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
const times = producers.map((): number[] => []);
const idTimes = schemas.map((): number[] => []);
const database = openDatabase({ connectionString, connectionsMax: 1 });
for (let n = -1; n < rounds; n += 1) {
  for (const [index, producer] of producers.entries()) {
    const ms = await round(producer);
    const began = performance.now();
    await database.query(`select max(${schemas[index]}.uuid_v7()::text) from generate_series(1, 2000)`, []);
    // the first round warms up
    if (n < 0) continue;
    times[index]?.push(ms);
    idTimes[index]?.push((performance.now() - began) / 2_000);
  }
}
for (const [index, schema] of schemas.entries())
  console.log(
    `${schema}: ${(middle(times[index] ?? []) * 1_000).toFixed(0)} µs a job, ${(middle(idTimes[index] ?? []) * 1_000).toFixed(1)} µs an id of uuid_v7()`,
  );
await Promise.all([...producers.map((producer) => producer.close()), database.close()]);
await server.stop();
rmSync(data, { recursive: true, force: true });
