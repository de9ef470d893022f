import { defineTask, implement } from '@pgqueue/core';
import type { TaskHandler } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(() => bench.clear());

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });
const quick = implement(task, () => null);

const enqueue = async (count: number): Promise<readonly string[]> => {
  const made = await bench.producer.enqueueMany(Array.from({ length: count }, () => task.job({})));
  await bench.dispatch();
  return made.map(({ id }) => id);
};
const allDone = (count: number): Promise<unknown> =>
  until(`${count} to be done`, async () => {
    const [row] = await bench.sql(
      `select count(*)::integer as n from pgqueue.history where outcome = 'done'`,
    );
    return row?.['n'] === count;
  });
const node = async (id: string) => (await bench.sql('select * from pgqueue.node where id = $1', [id]))[0];

/** Handlers that run until they are let go. */
function holding(): { readonly task: TaskHandler; readonly letGo: () => void; readonly most: () => number } {
  const gate = Promise.withResolvers<void>();
  let running = 0;
  let most = 0;
  return {
    letGo: gate.resolve,
    most: () => most,
    task: implement(task, async () => {
      running += 1;
      most = Math.max(most, running);
      await gate.promise;
      running -= 1;
    }),
  };
}

describe('options', () => {
  test('are refused with all problems at once', () => {
    const create = () =>
      createWorker({
        tasks: [quick, implement(task, () => 1)],
        concurrency: 0,
        heartbeatMs: 1_000,
        lostAfterMs: 1_500,
        pool: '',
      });
    expect(create).toThrow(
      expect.objectContaining({
        code: 'configuration',
        data: {
          problems: [
            expect.stringContaining('connectionString'),
            expect.stringContaining('pool'),
            expect.stringContaining('concurrency'),
            expect.stringContaining('two heartbeatMs'),
            expect.stringContaining('task task has more than one handler'),
          ],
        },
      }),
    );
  });
});

describe('a node', () => {
  test('says what it can run, in its row', async () => {
    const versioned = defineTask({
      name: 'versioned',
      payload: z.object({}),
      version: 3,
      upcasters: { 2: (old) => old },
    });
    const worker = await bench.worker([quick, implement(versioned, () => null)], {
      node: 'a',
      concurrency: 7,
    });
    expect(await node('a')).toMatchObject({
      state: 'alive',
      slots: 7,
      pool: 'default',
      tasks: {
        task: { min: 1, max: 1, timeoutMs: 3_600_000 },
        versioned: { min: 2, max: 3, timeoutMs: null },
      },
    });
    await worker.stop();
    expect(await node('a')).toMatchObject({ state: 'left', running: 0 });
  });

  test('refuses to begin under the id of a live one', async () => {
    // one whose heartbeat is late by another of these, on a busy machine, would be a dead one
    await bench.worker([quick], { node: 'a', heartbeatMs: 2_000 });
    const second = createWorker({ connectionString: bench.test.url, tasks: [quick], node: 'a' });
    await expect(second.start()).rejects.toMatchObject({ code: 'node_id_in_use', data: { node: 'a' } });
    await second.stop();
    await enqueue(1);
    await allDone(1);
  });

  test('replaces a dead one, and takes back what that held', async () => {
    await bench.sql(`select pgqueue.register_node('a', '{"task": {"min": 1, "max": 1, "timeoutMs": 3600000}}',
                            p_heartbeat_ms => 100, p_lost_after_ms => 600000)`);
    const [id = ''] = await enqueue(1);
    await bench.sql(`select pgqueue.claim(n.id, n.incarnation, 1) from pgqueue.node n`);
    await bench.worker([quick], { node: 'a' });
    await allDone(1); // ten minutes before it would be lost by itself
    expect(await bench.job(id)).toMatchObject({ crashes: 1, tries: 0, node: 'a' });
  });

  test('ends by itself when another process has taken its id', async () => {
    const worker = await bench.worker([quick], { node: 'a', heartbeatMs: 500 });
    // both at once: the node must not come back between them
    await bench.database.transaction(async (client) => {
      await client.query(`select pgqueue.reset_node('a')`);
      await client.query(`select pgqueue.register_node('a', '{}', p_heartbeat_ms => 100)`);
    });
    const beats = setInterval(() => {
      void bench.sql(`update pgqueue.node set heartbeat = clock_timestamp()`);
    }, 20);
    await expect(worker.ended).rejects.toMatchObject({ code: 'node_id_in_use' });
    clearInterval(beats);
    await worker.stop();
  });

  test('stops twice, before its start, and while it tries to reach a database', async () => {
    const unstarted = createWorker({ connectionString: bench.test.url, tasks: [quick] });
    await Promise.all([unstarted.stop(), unstarted.stop()]);
    await expect(unstarted.start()).rejects.toThrow('stopped');
    const lost = createWorker({ connectionString: 'postgres://localhost:1/none', tasks: [quick] });
    const starting = lost.start();
    await lost.stop();
    await starting;
    await lost.ended;
  });

  test('refuses a database without pgqueue', async () => {
    const worker = createWorker({ connectionString: bench.test.url, tasks: [quick], schema: 'nowhere' });
    await expect(worker.start()).rejects.toMatchObject({ code: 'schema_version' });
  });
});

describe('slots', () => {
  test.each([1, 3, 10])('%i of them are never exceeded, and all used', async (concurrency) => {
    const held = holding();
    const worker = await bench.worker([held.task], { concurrency });
    await enqueue(25);
    await until('the slots to be full', () => worker.running === concurrency);
    held.letGo();
    await allDone(25);
    expect(held.most()).toBe(concurrency);
  });

  test('are filled in dispatch order, by several nodes, each job once', async () => {
    const runs: string[] = [];
    const counting = implement(task, (_payload, { job }) => void runs.push(job.id));
    await Promise.all([1, 2, 3].map(() => bench.worker([counting], { concurrency: 5 })));
    const ids = await enqueue(500);
    await allDone(500);
    expect(runs.toSorted()).toEqual([...ids].toSorted());
  });

  test('of a pool are not filled with work of another', async () => {
    await bench.worker([quick], { pool: 'other' });
    await enqueue(1);
    await bench.worker([quick]);
    await allDone(1);
    expect(
      await bench.sql(`select distinct n.pool from pgqueue.history h join pgqueue.node n on n.id = h.node`),
    ).toEqual([{ pool: 'default' }]);
  });

  test('are filled without LISTEN', async () => {
    await bench.worker([quick], { listen: false });
    await enqueue(30);
    expect(await allDone(30)).toBe(true);
  });
});

test('a released job far behind the low-water mark is claimed soon', async () => {
  await enqueue(1);
  await bench.sql(`update pgqueue.work_queue set lock_key = 'another', lock_token = gen_random_uuid(), started = clock_timestamp(),
    lock_timeout = clock_timestamp() + interval '1 hour'`);
  await bench.worker([quick]);
  await enqueue(20);
  await allDone(20);
  await bench.sql(
    'update pgqueue.work_queue set lock_key = null, lock_token = null, started = null, lock_timeout = null',
  );
  await allDone(21);
  expect(await bench.sql('select * from pgqueue.work_queue')).toEqual([]);
});

test('connections that are killed all the time cost no job and no try', async () => {
  // long enough that no heartbeat has to get through: it would abort what runs
  const worker = await bench.worker([quick], { concurrency: 5, listen: false, lostAfterMs: 30_000 });
  const stop = new AbortController();
  const killer = (async () => {
    while (!stop.signal.aborted) {
      const began = performance.now();
      await bench.sql(`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like 'pgqueue %' and application_name not like '%producer%' order by random() limit 1`);
      // on a busy machine connections take longer to be made, too
      const pauseMs = 30 + 3 * (performance.now() - began);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  })();
  await enqueue(600);
  await until(
    'all to be done',
    async () => (await bench.sql(`select count(*)::integer as n from pgqueue.history`))[0]?.['n'] === 600,
  );
  stop.abort();
  await killer;
  expect(worker.of('database.error').length).toBeGreaterThan(0);
  expect(await bench.sql(`select distinct outcome, tries, crashes from pgqueue.history`)).toEqual([
    { outcome: 'done', tries: 0, crashes: 0 },
  ]);
});
