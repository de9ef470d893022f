import { defineTask, implement } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { addClock, clockOf, drain } from '@pgqueue/testing';
import type { TestClock } from '@pgqueue/testing';
import { createWorker } from '@pgqueue/worker';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { createTestDatabase, opened, useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const remind = defineTask({ name: 'remind', payload: z.object({}) });
const hourMs = 3_600_000;

/** Selects the definition of each function, without its search path. */
const routinesSql = `select p.oid::regprocedure::text as name, p.prosrc as code,
    array(select c from unnest(p.proconfig) c where c not like 'search_path=%') as settings
  from pg_proc p where p.pronamespace = 'pgqueue'::regnamespace order by 1`;
const pathsSql = `select distinct c as path from pg_proc p, unnest(p.proconfig) c
  where p.pronamespace = 'pgqueue'::regnamespace and c like 'search_path=%'`;

const { test: database, operator } = useDatabase();
let clock: TestClock;
const producer = opened(() => createProducer({ connectionString: database.url }));
let before: readonly unknown[];

beforeAll(async () => {
  vi.stubEnv('PGQUEUE_TEST_TIMEOUT_MS', '25000'); // other tests run at the same time
  before = await database.query(routinesSql, []);
  clock = await addClock({ connectionString: database.url });
});
afterEach(async () => {
  await database.clear();
  await clock.reset();
});
afterAll(() => vi.unstubAllEnvs());

test('what pgqueue runs stays as it was: only where it looks for the time differs', async () => {
  expect(before.length).toBeGreaterThan(50);
  expect(await database.query(routinesSql, [])).toEqual(before);
  expect(await database.query(pathsSql, [])).toEqual([
    { path: 'search_path=pgqueue, pgqueue_clock, pg_catalog, pg_temp' },
  ]);
});

test('no function asks for the time in a way that can not be hidden', async () => {
  const asking = `select p.oid::regprocedure::text as name from pg_proc p where p.pronamespace = 'pgqueue'::regnamespace
    and p.prosrc ~* 'current_timestamp|localtimestamp|current_date|timeofday|pg_catalog\\.(now|\\w+_timestamp)\\('`;
  expect(await database.query(asking, [])).toEqual([]);
});

test('between two tests, everything is as in a new database', async () => {
  const counts = `select c.relname as name, (xpath('/row/n/text()', query_to_xml(format('select count(*) as n from pgqueue.%I',
      c.relname), false, true, '')))[1]::text as rows
    from pg_class c where c.relnamespace = 'pgqueue'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1`;
  await database.clear();
  const empty = await database.query(counts, []);
  await operator.queues.pause('mails');
  await operator.schedules.set({ name: 'nightly', cron: '0 3 * * *', task: 'remind' });
  await producer.enqueue(remind, {});
  await drain({ database, tasks: [implement(remind, () => {})] });
  expect(await database.query(counts, [])).not.toEqual(empty);
  await database.clear();
  expect(await database.query(counts, [])).toEqual(empty);
});

test('a function that a migration has made anew gets its clock by another addClock', async () => {
  await database.query('alter function pgqueue.tick_due() set search_path to pgqueue, pg_temp', []);
  expect(await database.query(pathsSql, [])).toHaveLength(2);
  await addClock({ connectionString: database.url });
  expect(await database.query(pathsSql, [])).toHaveLength(1);
});

test('goes on beside the real one, and ahead of it', async () => {
  const start = await clock.now();
  expect(Math.abs(start.getTime() - Date.now())).toBeLessThan(30_000);
  const later = await clock.advance('2h');
  expect(later.getTime() - start.getTime()).toBeGreaterThanOrEqual(2 * hourMs);
  expect(later.getTime() - start.getTime()).toBeLessThan(2 * hourMs + 30_000);
  const noon = new Date('2040-01-01T12:00:00Z');
  expect((await clock.advanceTo(noon)).getTime() - noon.getTime()).toBeLessThan(30_000);
  await clock.reset();
  expect(Math.abs((await clock.now()).getTime() - Date.now())).toBeLessThan(30_000);
});

test('new jobs, by SQL too, views and defaults go by it', async () => {
  await clock.advanceTo(new Date('2040-01-01T12:00:00Z'));
  const fresh = createProducer({ connectionString: database.url });
  await fresh.enqueue(remind, {}, { delay: '1h' });
  await fresh.close();
  const job = (await operator.jobs.list({})).items[0];
  expect(job?.created.toISOString()).toMatch(/^2040-01-01T12:0/);
  expect(job?.runAfter?.toISOString()).toMatch(/^2040-01-01T13:0/);
  expect(job?.ageMs).toBeLessThan(60_000);
});

test('schedulers and workers that run meanwhile do what has become due, and keep what they hold', async () => {
  const begun = Promise.withResolvers<void>();
  const mayEnd = Promise.withResolvers<void>();
  const ran: string[] = [];
  const slow = defineTask({ name: 'slow', payload: z.object({}), timeout: '1m' });
  const events: string[] = [];
  const observe = ({ type }: { readonly type: string }): void => void events.push(type);
  const scheduler = createScheduler({ connectionString: database.url, observe });
  const worker = createWorker({
    connectionString: database.url,
    observe,
    heartbeatThread: false,
    tasks: [
      implement(remind, () => void ran.push('remind')),
      implement(slow, async () => {
        begun.resolve();
        await mayEnd.promise;
        ran.push('slow');
      }),
    ],
  });
  await Promise.all([scheduler.start(), worker.start()]);
  try {
    await producer.enqueue(slow, {});
    await producer.enqueue(remind, {}, { delay: '1d' });
    await begun.promise;
    await clock.advance('25h');
    await until('the delayed job to run', () => ran.includes('remind'));
    mayEnd.resolve();
    await until('the slow one to be done', () => ran.length === 2);
    await until(
      'both to be settled',
      async () => (await operator.jobs.list({ status: 'done' })).items.length === 2,
    );
    expect(
      events.filter((type) => ['job.stale', 'node.lost', 'node.fenced', 'leases.reaped'].includes(type)),
    ).toEqual([]);
  } finally {
    mayEnd.resolve();
    await Promise.all([worker.stop({ drainMs: 0 }), scheduler.stop()]);
  }
});

test('wrong use is told, with what to do', async () => {
  const plain = await createTestDatabase();
  try {
    const none = clockOf({ connectionString: plain.url });
    await expect(none.advance('1h')).rejects.toThrow(
      /no clock that can be put forward: make it with createTestDatabase/,
    );
    const handler = implement(remind, () => {});
    await expect(drain({ database: plain, tasks: [handler], ahead: '1h' })).rejects.toThrow(/no clock/);
  } finally {
    await plain.drop();
  }
  await expect(clock.advance('2 hours' as never)).rejects.toThrow(/"2 hours" is no duration.*"2h"/);
  await expect(clock.advanceTo(new Date(0))).rejects.toThrow(
    /has passed, by this clock it is .*goes forward only/,
  );
  await expect(clock.advanceTo('tomorrow' as never)).rejects.toThrow('takes a Date');
});
