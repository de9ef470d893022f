import { setTimeout as delay } from 'node:timers/promises';
import { defineTask, implement } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { createWorker } from '@pgqueue/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openBench, until } from '../scheduler/support.ts';

const task = defineTask({ name: 't', payload: z.object({}) });
const bench = opened(openBench);

const warnings: (Error & { readonly code?: string })[] = [];
const note = (warning: Error): void => void warnings.push(warning);
beforeEach(() => {
  warnings.length = 0;
  process.on('warning', note);
});
afterEach(async () => {
  process.off('warning', note);
  await bench.clear();
});

const told = (): readonly unknown[] => warnings.map(({ code }) => code);

test('without a scheduler an idle worker and a producer say so, once each', async () => {
  const worker = createWorker({ connectionString: bench.test.url, tasks: [implement(task, () => {})] });
  const producer = createProducer({ connectionString: bench.test.url });
  try {
    await worker.start();
    await until('the warning of the worker', () => warnings.length === 1);
    // at once, so that each of them looks at the schema
    await Promise.all(Array.from({ length: 5 }, () => producer.enqueue(task, {})));
    await until('the warning of the producer', () => warnings.length === 2);
    await delay(200);
    expect(told()).toEqual(['PGQUEUE_NO_SCHEDULER', 'PGQUEUE_NO_SCHEDULER']);
    expect(warnings[0]?.message).toContain(
      'no scheduler leads in schema pgqueue: no job starts until there is one',
    );
  } finally {
    await producer.close();
    await worker.stop();
  }
});

test('the database says whether one leads', async () => {
  const leads = async (): Promise<unknown> =>
    (await bench.database.query<{ leads: boolean }>('select pgqueue.has_leader() as leads', []))[0]?.leads;
  expect(await leads()).toBe(false);
  const scheduler = await bench.scheduler();
  await until('it to lead', () => scheduler.leads);
  expect(await leads()).toBe(true);
  await scheduler.stop();
  expect(await leads()).toBe(false);
});
