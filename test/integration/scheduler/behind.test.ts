import { setTimeout as delay } from 'node:timers/promises';
import { defineTask, implement } from '@pgqueue/core';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

/**
 * Ticks begin where the last ones ended, for jobs and for work items. A row that appears before that place,
 * for whatever reason, is found by looks beside the ticks: one every ten seconds for each of the two, while
 * the queue is active. Others pass it until then, for less than ten seconds: how long is luck.
 */

const crowd = defineTask({ name: 'crowd', payload: z.object({}) });
const straggler = defineTask({ name: 'straggler', payload: z.object({}) });
const ran = { crowd: 0, straggler: 0 };

const own = useDatabase();
const { operator, sql } = own;
let stop: () => Promise<void>;

beforeAll(async () => {
  const scheduler = createScheduler({ connectionString: own.url });
  const worker = createWorker({
    connectionString: own.url,
    tasks: [
      implement(crowd, () => void (ran.crowd += 1)),
      implement(straggler, () => void (ran.straggler += 1)),
    ],
  });
  // lower numbers are left for the jobs that appear behind
  await sql('alter table pgqueue.queue alter seq restart with 1000');
  await sql('alter table pgqueue.work_queue alter position restart with 1000');
  await Promise.all([scheduler.start(), worker.start()]);
  const stopping = new AbortController();
  const flow = feed(stopping.signal);
  stop = async () => {
    stopping.abort();
    await flow;
    await Promise.all([scheduler.stop(), worker.stop()]);
  };
  await until('the crowd to run', () => ran.crowd > 500);
});
afterAll(() => stop());

async function feed(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sql(`insert into pgqueue.queue (task) select 'crowd' from generate_series(1, 50)`);
    await delay(50);
  }
}

test('a job', async () => {
  // the first late look of a lane begins at its first row
  await delay(2_000);
  await sql(`insert into pgqueue.queue (task, seq) overriding system value values ('straggler', 1)`);
  await until('the straggler to run', () => ran.straggler > 0);
  expect(ran.straggler).toBe(1);
});

test('a work item: it counts for the limits', async () => {
  await operator.queues.set('narrow', { concurrency: 1 });
  await sql(
    `with job as (insert into pgqueue.queue (queue, task) values ('narrow', 'held') returning id)
     insert into pgqueue.work_queue (position, id, version, pool, task) overriding system value
     select 1, id, 1, 'nobody', 'held' from job`,
  );
  const isHeld = async (): Promise<boolean> => {
    const [job] = await sql(
      `insert into pgqueue.queue (queue, task) values ('narrow', 'straggler') returning id`,
    );
    await delay(500);
    const { reasons } = await operator.explain(job.id).catch(() => ({ reasons: [] }));
    return reasons.some((reason) => reason.kind === 'held' && reason.gate === 'queue_concurrency');
  };
  await until('another job of its queue to be held', isHeld);
  expect(await isHeld()).toBe(true);
});
