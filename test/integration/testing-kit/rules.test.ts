import {
  concurrency,
  defineTask,
  implement,
  implementBatch,
  ordered,
  policy,
  rate,
  turns,
} from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { addClock, drain } from '@pgqueue/testing';
import type { TestClock } from '@pgqueue/testing';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const greet = defineTask({ name: 'greet', payload: z.object({ n: z.number() }), retry: { maxTries: 3 } });
const double = implement(greet, ({ n }) => n * 2);

const { test: database, operator } = useDatabase();
let clock: TestClock;
const producer = opened(() => createProducer({ connectionString: database.url, notify: false }));

beforeAll(async () => {
  vi.stubEnv('PGQUEUE_TEST_TIMEOUT_MS', '25000'); // beside everything else that is tested
  clock = await addClock({ connectionString: database.url });
});

afterEach(async () => {
  await database.clear();
  await clock.reset();
});

afterAll(() => vi.unstubAllEnvs());

test('unique keys, ordered keys, limits and rates are those of production', async () => {
  await producer.enqueue(greet, { n: 1 }, { uniqueKey: 'one' });
  await producer.enqueue(greet, { n: 2 }, { uniqueKey: 'one' });
  expect((await drain({ database, tasks: [double] })).jobs.map(({ result }) => result)).toEqual([2]);

  let [running, most] = [0, 0];
  const counting = implement(greet, async () => {
    running += 1;
    most = Math.max(most, running);
    await until('a moment', () => new Promise<boolean>((resolve) => setImmediate(() => resolve(true))));
    running -= 1;
  });
  const limited = policy({
    gates: [concurrency({ name: 'tenant', by: ({ key }) => key, limit: 2 })],
    order: turns(),
  });
  for (let n = 0; n < 12; n += 1) await producer.enqueue(greet, { n }, { key: 'acme' });
  const drained = await drain({ database, tasks: [counting], policy: limited, concurrency: 10 });
  expect(drained.counts.done).toBe(12);
  expect(most).toBe(2);

  const mails = policy({ gates: [rate({ name: 'mails', perSecond: 2 / 3_600, burst: 2 })], order: turns() });
  for (let n = 0; n < 5; n += 1) await producer.enqueue(greet, { n });
  const first = await drain({ database, tasks: [double], policy: mails });
  expect(first.counts.done).toBe(2);
  expect(first.left).toMatchObject({ pending: 3 });
  expect(first.left.nextInMs).toBeGreaterThan(1_000_000);
  const hours = await drain({ database, tasks: [double], policy: mails, ahead: '3h' });
  expect(hours.counts.done).toBe(3);
});

test('a job of an ordered key waits for the retry of the one before it', async () => {
  const inOrder = policy({ gates: [ordered()], order: turns() });
  let fails = 1;
  const flaky = implement(greet, ({ n }) => {
    if (n === 1 && fails-- > 0) throw new Error('once');
    return n;
  });
  for (const n of [1, 2]) await producer.enqueue(greet, { n }, { key: 'acme' });
  const first = await drain({ database, tasks: [flaky], policy: inOrder });
  expect(first.jobs.map(({ outcome }) => outcome)).toEqual(['retry']);
  expect(first.left).toMatchObject({ pending: 1, delayed: 1 });
  const rest = await drain({ database, tasks: [flaky], policy: inOrder, retries: true });
  expect(rest.jobs.map(({ result }) => result)).toEqual([1, 2]);
});

test('bundles are run as bundles', async () => {
  const sizes: number[] = [];
  const summed = implementBatch(greet, (jobs) => {
    sizes.push(jobs.length);
  });
  await producer.enqueueMany([0, 1, 2, 3].map((n) => greet.job({ n }, { key: 'acme' })));
  const together = policy({ order: turns(), coalesce: [{ when: () => true, max: 4, ageMs: 60_000 }] });
  const { counts } = await drain({ database, tasks: [summed], policy: together });
  expect(counts.done).toBe(4);
  expect(sizes).toEqual([4]);
});

describe('ahead in time', () => {
  test('retries, delays and schedules come at their times', async () => {
    const times: string[] = [];
    const noting = implement(greet, async ({ n }) => {
      times.push(`${n} ${(await clock.now()).toISOString().slice(11, 16)}`);
      if (n === 1 && times.length < 3) throw new Error('again');
    });
    await clock.advanceTo(new Date('2031-03-01T08:00:00Z'));
    await operator.schedules.set({ name: 'nine', cron: '0 9 * * *', task: 'greet', payload: { n: 9 } });
    await producer.enqueue(greet, { n: 1 }, { retry: { backoff: 'fixed', base: '10m', jitter: 0 } });
    await producer.enqueue(greet, { n: 2 }, { delay: '90m' });
    const { counts, fired } = await drain({ database, tasks: [noting], ahead: '1d' });
    expect(times).toEqual(['1 08:00', '1 08:10', '1 08:20', '9 09:00', '2 09:30']);
    expect(counts).toMatchObject({ done: 3, retry: 2 });
    expect(fired).toBe(1);
    expect((await clock.now()).toISOString().slice(0, 16)).toBe('2031-03-02T08:00');
  });

  test('a job that was not started in time expires', async () => {
    const expiresAt = new Date(Date.now() + 60_000);
    await producer.enqueue(greet, { n: 1 }, { expiresAt, queue: 'paused' });
    await operator.queues.pause('paused');
    const { expired, counts } = await drain({ database, tasks: [double], ahead: '2m' });
    expect([expired, counts.done]).toEqual([1, 0]);
  });
});

test('ahead goes past a job that somebody holds', async () => {
  const { id } = await producer.enqueue(greet, { n: 1 }, { delay: '1m' });
  const holder = new pg.Client({ connectionString: database.url });
  await holder.connect();
  await holder.query('begin');
  await holder.query('select 1 from pgqueue.queue where id = $1 for update', [id]);
  try {
    const { left, jobs } = await drain({ database, tasks: [double], ahead: '65s' });
    expect([jobs, left.delayed]).toEqual([[], 1]);
  } finally {
    await holder.query('rollback');
    await holder.end();
  }
});

test('a policy that fails, or a schedule that nobody can read, fails the drain', async () => {
  await producer.enqueue(greet, { n: 1 });
  const broken = concurrency({
    name: 'broken',
    limit: 1,
    by: () => {
      throw new Error('no such attribute');
    },
  });
  const failing = policy({ name: 'mine', gates: [broken] });
  await expect(drain({ database, tasks: [double], policy: failing })).rejects.toThrow(
    /policy "mine", broken failed: .*no such attribute/,
  );
  await database.query(
    `insert into pgqueue.schedule (name, cron, timezone, task, payload) values ('odd', '61 * * * *', 'UTC', 'greet', '{}')`,
    [],
  );
  await expect(drain({ database, tasks: [double] })).rejects.toThrow(/schedule "odd" failed: .*61/);
});
