// Results of jobs, as whoever has enqueued them awaits them.
import { randomUUID } from 'node:crypto';
import { defineTask, flow, timer } from '@pgqueue/core';
import { createResultWaits } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import type { Producer, ProducerOptions } from '@pgqueue/producer';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const own = useDatabase();
const { die, insert, operator, reset, run, sql } = own;
const unknownId = '00000000-0000-7000-8000-000000000000';

let producers: Producer[] = [];
const produce = (options: ProducerOptions = {}): Producer => {
  const producer = createProducer({ connectionString: own.url, notify: false, ...options });
  producers.push(producer);
  return producer;
};
beforeEach(reset);
afterEach(async () => {
  await Promise.all(producers.map((producer) => producer.close()));
  producers = [];
});

const ack = async (id: string, token: string, result: unknown): Promise<void> => {
  await sql('select pgqueue.ack($1, $2, $3::jsonb)', [id, token, JSON.stringify(result)]);
};
const hint = (payload: string): Promise<unknown> => sql(`select pg_notify('pgqueue:done', $1)`, [payload]);
const listeners = async (): Promise<number> => {
  const rows = await sql(
    `select count(*)::integer as n from pg_stat_activity where datname = current_database() and query = 'listen "pgqueue:done"'`,
  );
  return rows[0].n as number;
};

describe('a wait ends as its job has ended', () => {
  test('done: before the wait, and during it', async () => {
    const producer = produce();
    const [before, during] = [await insert(), await insert()];
    const token = await run('n', [before, during]);
    await ack(before, token, { words: 1 });
    expect(await producer.result(before)).toEqual({ words: 1 });
    const waited = producer.result({ id: during.toUpperCase(), outcome: 'enqueued' }, { timeout: '1h' });
    await ack(during, token, null);
    expect(await waited).toBeNull();
  });

  test('dead, cancelled, expired', async () => {
    const producer = produce();
    const [dead, cancelled, expired] = [await die(), await insert(), await insert()];
    await operator.jobs.cancel([cancelled]);
    await sql(`update pgqueue.queue set expires_at = now() - interval '1 s' where id = $1`, [expired]);
    const [{ epoch }] = await sql(`select epoch from pgqueue.lead('s', 60000)`);
    await sql('select pgqueue.expire($1, $2, 10)', ['s', epoch]);
    await expect(producer.result(dead)).rejects.toMatchObject({
      code: 'job_dead',
      message: `job ${dead} is dead (gave_up): no`,
      data: { id: dead, reason: 'gave_up', error: { message: 'no', try: 1, node: 'killer' } },
    });
    await expect(producer.result(cancelled)).rejects.toMatchObject({
      code: 'job_cancelled',
      data: { id: cancelled },
    });
    await expect(producer.result(expired)).rejects.toMatchObject({
      code: 'job_expired',
      data: { id: expired },
    });
  });

  test('timed out, with its status', async () => {
    const producer = produce();
    const running = await insert();
    await run('n', [running]);
    const [pending, ready] = [await insert(), await insert()];
    const delayed = await insert({ run_after: '2999-01-01T00:00:00Z' });
    const batch = [await insert(), await insert()];
    await own.item(ready);
    await own.batch(batch);
    const waits = [pending, delayed, running, ready, ...batch].map(async (id) =>
      producer.result(id, { timeout: 100 }).catch((error: unknown) => error),
    );
    const statuses = ['pending', 'delayed', 'running', 'ready', 'ready', 'ready'];
    expect(await Promise.all(waits)).toMatchObject(
      statuses.map((status) => ({
        code: 'result_timeout',
        data: { status, timeoutMs: 100 },
        message: expect.stringContaining(
          `(it is ${status}): it goes on, and can be awaited again`,
        ) as unknown,
      })),
    );
  });

  test('gone: it never was, was erased, or its queue keeps no history', async () => {
    const producer = produce();
    await expect(producer.result(unknownId)).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining(
        'has not committed, it was erased, its history is gone, or',
      ) as unknown,
    });
    await operator.queues.set('brief', { retention: 0 });
    const [done, erased] = [await insert({ queue: 'brief' }), await insert()];
    const waited = [done, erased].map((id) => producer.result(id).catch((error: unknown) => error));
    await until('both to be waited for', async () => (await listeners()) === 1);
    await ack(done, await run('n', [done]), { words: 1 });
    await operator.jobs.erase([erased]);
    expect(await Promise.all(waited)).toMatchObject(
      [done, erased].map((id) => ({
        code: 'not_found',
        message: `job ${id} has ended, and nothing tells how: its queue keeps no history, or it was erased. Results need a retention of more than 0`,
      })),
    );
    await expect(producer.result(done)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('gone: its step of a flow has not opened', async () => {
    const producer = produce();
    const job = defineTask({ name: 'later', payload: z.object({}) }).job({}, { id: randomUUID() });
    await producer.start(
      flow('late')
        .step('wait', timer('1h'))
        .step('job', job, { needs: ['wait'] }),
    );
    await expect(producer.result(job.options.id ?? '')).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringMatching(
        /or it belongs to a step of a flow that has not opened\. .* that of a step's job after the flow's end$/,
      ) as unknown,
    });
  });

  test('closed: with the producer', async () => {
    const producer = produce();
    const id = await insert();
    const waited = producer.result(id).catch((error: unknown) => error);
    await until('the listener', async () => (await listeners()) === 1);
    await producer.close();
    expect(await waited).toMatchObject({ code: 'closed' });
    await expect(producer.result(id)).rejects.toMatchObject({ code: 'closed' });
    expect(await listeners()).toBe(0);
  });

  test('aborted: by the caller, with the reason of its signal; others go on', async () => {
    const producer = produce();
    const id = await insert();
    const request = new AbortController();
    const left = producer
      .result(id, { timeout: '1h', signal: request.signal })
      .catch((error: unknown) => error);
    const other = producer.result(id, { timeout: '1h', signal: new AbortController().signal });
    await until('the listener', async () => (await listeners()) === 1);
    const reason = new Error('the request is gone');
    request.abort(reason);
    expect(await left).toBe(reason);
    await expect(producer.result(id, { signal: request.signal })).rejects.toBe(reason);
    await ack(id, await run('n', [id]), 5);
    expect(await other).toBe(5);
    const wrong = { signal: new AbortController() as unknown as AbortSignal };
    await expect(producer.result(id, wrong)).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringMatching(/signal must be an AbortSignal/) as string,
    });
  });

  test('lost: a result that could not be stored', async () => {
    const id = await insert();
    await ack(id, await run('n', [id]), { pgqueue_error: 'it is a cycle' });
    await expect(produce().result(id)).rejects.toMatchObject({
      code: 'result_lost',
      message: `job ${id} is done, and its result is lost: it is a cycle`,
    });
  });
});

describe('how it waits', () => {
  test('a pool alone is enough', async () => {
    const pool = new pg.Pool({ connectionString: own.url, max: 1 });
    const producer = createProducer({ pool });
    const id = await insert();
    const waited = producer.result(id);
    await ack(id, await run('n', [id]), 5);
    expect(await waited).toBe(5);
    expect(await listeners()).toBe(0);
    await producer.close();
    await pool.end();
  });

  test('500 waits share few statements', async () => {
    const pool = new pg.Pool({ connectionString: own.url, max: 2 });
    const producer = createProducer({ pool });
    const ids = (
      await sql(`insert into pgqueue.queue (task) select 'hello' from generate_series(1, 500) returning id`)
    ).map(({ id }) => id as string);
    let statements = 0;
    const query = pool.query.bind(pool);
    pool.query = ((...args: Parameters<typeof query>) => {
      if (args[0].includes('job_result')) statements += 1;
      return query(...args);
    }) as typeof pool.query;
    let ended = 0;
    const waited = ids.map(async (id, n) => {
      await new Promise((resolve) => setTimeout(resolve, n));
      const result = await producer.result(id, { timeout: '10m' });
      ended += 1;
      return result;
    });
    await until('the pauses to have grown', () => statements > 20 && ended === 0);
    const beganAt = performance.now();
    await sql(`with gone as (delete from pgqueue.queue returning *)
      insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, attributes, payload, result)
      select id, queue, task, key, priority, 'done', 0, 0, created, now(), 1, '{}', '{}', to_jsonb(id) from gone`);
    expect(await Promise.all(waited)).toEqual(ids);
    // at most 100 a second, whatever the machine: 500 waits with a loop each would make 20,000
    expect(statements).toBeLessThan(20 + (performance.now() - beganAt + 1_500) / 10);
    await producer.close();
    await pool.end();
  });

  test('a hint ends a wait that would look again in an hour', async () => {
    const hour = 3_600_000;
    let looks = 0;
    const waits = createResultWaits({
      database: own.database,
      connectionString: own.url,
      applicationName: 'results',
      observe: () => {},
      verify: () => {
        looks += 1;
        return Promise.resolve();
      },
      pause: { minMs: hour, maxMs: hour },
    });
    const [named, unnamed] = [await insert(), await insert()];
    const waited = [named, unnamed].map((id) => waits.wait(id, 24 * hour));
    await until(
      'the listener, which looks when it is connected',
      async () => looks > 1 && (await listeners()) === 1,
    );
    const before = looks;
    const token = await run('n', [named, unnamed]);
    await ack(named, token, 1);
    await ack(unnamed, token, 2);
    await hint(`${unknownId},${named}`);
    expect(await waited[0]).toMatchObject({ kind: 'ended', state: { status: 'done', result: 1 } });
    await hint('');
    expect(await waited[1]).toMatchObject({ kind: 'ended', state: { status: 'done', result: 2 } });
    expect(looks - before).toBeLessThan(4);
    await waits.stop(new Error('stopped'));
    expect(await listeners()).toBe(0);
  });

  test('one connection hears for all waits', async () => {
    const producer = produce();
    const ids = await Promise.all(Array.from({ length: 10 }, () => insert()));
    const waited = Promise.allSettled(ids.map((id) => producer.result(id)));
    await until('the listener', async () => (await listeners()) === 1);
    await producer.close();
    expect((await waited).every(({ status }) => status === 'rejected')).toBe(true);
  });

  test('listen: false opens no connection to hear hints', async () => {
    const producer = produce({ listen: false });
    const id = await insert();
    const waited = producer.result(id);
    await ack(id, await run('n', [id]), 5);
    expect([await waited, await listeners()]).toEqual([5, 0]);
  });

  test('a wait outlasts a server that ends its connections', async () => {
    const producer = produce({ observe: () => {} });
    const id = await insert();
    const waited = producer.result(id, { timeout: '10m' });
    await until('the listener', async () => (await listeners()) === 1);
    await sql(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'pgqueue producer%'`,
    );
    await ack(id, await run('n', [id]), 5);
    expect(await waited).toBe(5);
  });
});
