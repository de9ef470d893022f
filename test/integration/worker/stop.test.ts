import { defineTask, implement } from '@pgqueue/core';
import type { TaskHandler } from '@pgqueue/core';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(() => bench.clear());

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });

const enqueue = async (count: number): Promise<readonly string[]> => {
  const made = await bench.producer.enqueueMany(Array.from({ length: count }, () => task.job({})));
  await bench.dispatch();
  return made.map(({ id }) => id);
};
const node = async (id: string) => (await bench.sql('select * from pgqueue.node where id = $1', [id]))[0];

/** Handlers that run until they are let go. */
function holding(): { readonly task: TaskHandler; readonly letGo: () => void } {
  const gate = Promise.withResolvers<void>();
  return {
    letGo: gate.resolve,
    task: implement(task, () => gate.promise),
  };
}

describe('a stop', () => {
  test('waits for running handlers, and lets nothing new in', async () => {
    const held = holding();
    const worker = await bench.worker([held.task], { concurrency: 2, node: 'a' });
    const ids = await enqueue(4);
    await until('two to run', () => worker.running === 2);
    const stopping = worker.stop();
    await until('the drain to be told', async () => (await node('a'))?.['state'] === 'draining');
    held.letGo();
    await stopping;
    const statuses = await Promise.all(ids.map(async (id) => (await bench.job(id)).status));
    expect(statuses).toEqual(['done', 'done', 'ready', 'ready']);
    expect(await node('a')).toMatchObject({ state: 'left' });
  });

  test('gives back what was claimed and has not started', async () => {
    let ran = 0;
    const worker = await bench.worker([implement(task, () => (ran += 1))], { node: 'a', listen: false });
    const client = await bench.database.pool.connect();
    await client.query('begin');
    await client.query(`select from pgqueue.node for update`); // a claim waits for this row
    const [id = ''] = await enqueue(1);
    await until('the claim to wait', async () => {
      const rows = await bench.sql(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%claim_rows(%'`,
      );
      return rows.length > 0;
    });
    const stopping = worker.stop();
    await client.query('commit');
    client.release();
    await stopping;
    expect(await bench.job(id)).toMatchObject({ status: 'ready', tries: 0, crashes: 0 });
    expect(ran).toBe(0);
  });

  test('at its deadline aborts the signals, and gives back what ends by that or does not end; nothing is counted', async () => {
    const reasons: unknown[] = [];
    let n = 0;
    const handler = implement(task, async (_payload, { signal }) => {
      n += 1;
      const obedient = n === 1;
      await new Promise<void>((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push((signal.reason as { readonly code: unknown }).code);
          if (obedient) reject(signal.reason as Error);
        });
      });
    });
    const worker = await bench.worker([handler]);
    const ids = await enqueue(2);
    await until('both to run', () => n === 2);
    await worker.stop({ drainMs: 50 });
    expect(reasons).toEqual(['shutdown', 'shutdown']);
    for (const id of ids) {
      expect(await bench.job(id)).toMatchObject({ status: 'ready', tries: 0, crashes: 0, errors: [] });
    }
  });

  test('with a time that no timer takes is refused, and nothing is stopped', async () => {
    const held = holding();
    const worker = await bench.worker([held.task], { concurrency: 2 });
    const before = await enqueue(1);
    await until('it to run', () => worker.running === 1);
    for (const drainMs of [Infinity, Number.NaN, -1, 30 * 86_400_000, '30s'])
      await expect(worker.stop({ drainMs: drainMs as number })).rejects.toMatchObject({
        code: 'configuration',
        message: expect.stringContaining('drainMs must be a whole number from 0 to 86400000') as unknown,
      });
    await expect(worker.stop({ drainMS: 5 } as never)).rejects.toThrow('did you mean drainMs?');
    const ids = [...before, ...(await enqueue(1))];
    await until('both to run', () => worker.running === 2);
    held.letGo();
    await worker.stop();
    const jobs = await Promise.all(ids.map((id) => bench.job(id)));
    expect(jobs).toMatchObject(jobs.map(() => ({ status: 'done', tries: 0, crashes: 0 })));
  });

  test('does not wait for a handler that holds a transaction for ever', async () => {
    let inside = false;
    const handler = implement(task, (_payload, { transaction }) =>
      transaction(async (client) => {
        await client.query('select 1');
        inside = true;
        await new Promise(() => {});
      }),
    );
    const worker = await bench.worker([handler]);
    const [id = ''] = await enqueue(1);
    await until('it to be inside', () => inside);
    await worker.stop({ drainMs: 50 });
    expect(await bench.job(id)).toMatchObject({ status: 'ready', tries: 0, crashes: 0 });
  });
});

test('leave gives back what runs, at once and uncounted; what has ended is settled', async () => {
  const gate = Promise.withResolvers<void>();
  let n = 0;
  const handler = implement(task, () => {
    n += 1;
    return n === 1 ? gate.promise : new Promise<never>(() => {});
  });
  const worker = await bench.worker([handler], { node: 'a' });
  const ids = await enqueue(2);
  await until('both to run', () => n === 2);
  gate.resolve();
  await until('one to end', () => worker.running === 1);
  await worker.leave();
  const jobs = await Promise.all(ids.map((id) => bench.job(id)));
  expect(jobs.map(({ status }) => status).toSorted()).toEqual(['done', 'ready']);
  expect(jobs).toMatchObject(jobs.map(() => ({ tries: 0, crashes: 0, errors: [] })));
  expect(await node('a')).toMatchObject({ state: 'left' });
});
