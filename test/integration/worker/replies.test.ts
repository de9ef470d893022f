import { defineTask, implement } from '@pgqueue/core';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
const proxy = opened(() => startCutProxy(bench.test.url), { each: true });
beforeAll(() => bench.sql('create table effect (job uuid)'));
afterEach(() => bench.clear());

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });

/** One job that is done under a worker that loses one reply. */
async function doneThough(part: string, handler: Parameters<typeof implement<object, object, unknown>>[1]) {
  const { id } = await bench.producer.enqueue(task, {});
  await bench.dispatch();
  proxy.cutReplyOf(part); // the job is there: the first claim takes it
  const worker = await bench.worker([implement(task, handler)], {
    connectionString: proxy.url,
    listen: false,
  });
  await until('the cut', () => proxy.cuts() === 1);
  await until('job to be done', async () => (await bench.job(id)).status === 'done');
  await until('the slot to be free', () => worker.running === 0);
  return { id, worker };
}

async function expectOneEnd(worker: TestWorker, id: string): Promise<void> {
  await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
  expect(worker.of('job.stale')).toEqual([]);
  expect(worker.of('database.error').length).toBeGreaterThan(0);
}

test('a settle whose reply is lost is repeated, and known as its own', async () => {
  const { id, worker } = await doneThough('.settle(', () => 'result');
  await until('the event', () => worker.of('job.settled').length > 0);
  await expectOneEnd(worker, id);
  expect(await bench.job(id)).toMatchObject({ result: 'result', tries: 0, crashes: 0 });
});

test('jobs of a claim whose reply is lost are given back, and run: their hour is not waited for', async () => {
  const { id, worker } = await doneThough('.claim_rows(', () => 'result');
  await until('the event', () => worker.of('job.settled').length > 0);
  await expectOneEnd(worker, id);
  expect(await bench.job(id)).toMatchObject({ tries: 0, crashes: 0 });
});

test('a COMMIT of ctx.transaction whose reply is lost is looked up, and happened once', async () => {
  const { id, worker } = await doneThough('commit\u0000', (_payload, { job, transaction }) =>
    transaction((client) => client.query('insert into effect values ($1)', [job.id])),
  );
  expect(await bench.sql('select job from effect')).toEqual([{ job: id }]);
  await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
  expect(worker.of('job.stale')).toEqual([]);
  expect(await bench.job(id)).toMatchObject({ tries: 0 });
});

test('a claim whose answer comes when its leases have ended starts nothing: its jobs may be run by others', async () => {
  const short = defineTask({ name: 'short', payload: z.object({}), timeout: '1s' });
  const starts: string[] = [];
  const noted = (node: string) => implement(short, () => void starts.push(node));
  const late = await bench.worker([noted('late')], { connectionString: proxy.url, listen: false });
  const client = await bench.database.pool.connect();
  await client.query('begin');
  await client.query('select from pgqueue.node for update'); // a claim waits for this row
  const { id } = await bench.producer.enqueue(short, {});
  await bench.dispatch();
  await until('the claim to wait', async () => {
    const rows = await bench.sql(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%claim_rows(%'`,
    );
    return rows.length > 0;
  });
  proxy.hold('to-client');
  await client.query('commit');
  client.release();
  await until('its lease to end', async () => {
    const rows = await bench.sql('select from pgqueue.work_queue where lock_timeout < clock_timestamp()');
    return rows.length === 1;
  });
  const other = await bench.worker([noted('other')]);
  await until('job to be done', async () => (await bench.job(id)).status === 'done');
  await other.stop();
  proxy.hold(undefined);
  const { id: next } = await bench.producer.enqueue(short, {});
  await bench.dispatch();
  await until('the next one to be done', async () => (await bench.job(next)).status === 'done');
  expect(late.of('job.stale')).toEqual([]);
  expect(late.of('job.timeout')).toEqual([]);
  expect(starts).toEqual(['other', 'late']);
});
