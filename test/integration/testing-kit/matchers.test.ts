import { defineTask, implement } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { drain } from '@pgqueue/testing';
import '@pgqueue/testing/vitest';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';

const welcome = defineTask({
  name: 'send-welcome',
  payload: z.object({ user: z.string(), address: z.object({ city: z.string() }).optional() }),
  key: ({ user }) => user.toLowerCase(),
});
const invoice = defineTask({ name: 'send-invoice', payload: z.object({ cents: z.number() }) });

const { test: database } = useDatabase();
const producer = opened(() => createProducer({ connectionString: database.url, notify: false }));

afterEach(() => database.query('truncate pgqueue.queue, pgqueue.history', []));

/** Resolves to the message of a failing matcher. */
async function messageOf(expectation: Promise<void>): Promise<string> {
  return expectation.then(
    () => 'it passed',
    (error: Error) => error.message,
  );
}

test('some of the payload, and matchers within it, are enough', async () => {
  await producer.enqueue(welcome, { user: 'Ada', address: { city: 'London' } });
  await expect(database).toHaveEnqueued(welcome);
  await expect(database).toHaveEnqueued('send-welcome', { user: 'Ada' });
  await expect(database).toHaveEnqueued(welcome, { address: { city: 'London' } });
  await expect(database).toHaveEnqueued(welcome, { user: expect.stringMatching(/^A/) as string });
  await expect(database).toHaveEnqueued();
  await expect(database).not.toHaveEnqueued(invoice);
  await expect(database).not.toHaveEnqueued(welcome, { user: 'Bob' });
});

test('options of the job, given or of its task', async () => {
  const runAfter = new Date(Date.now() + 86_400_000);
  await producer.enqueue(
    invoice,
    { cents: 5 },
    {
      queue: 'mails',
      key: 'acme',
      priority: -1,
      delay: '2h',
      timeout: '30s',
      uniqueKey: 'u',
      retry: { maxTries: 2 },
    },
  );
  await producer.enqueue(welcome, { user: 'Ada' }, { runAfter });
  await expect(database).toHaveEnqueued(
    invoice,
    { cents: 5 },
    {
      queue: 'mails',
      key: 'acme',
      priority: -1,
      delay: '2h',
      timeout: '30s',
      uniqueKey: 'u',
      retry: { maxTries: 2 },
    },
  );
  await expect(database).toHaveEnqueued(welcome, {}, { key: 'ada', runAfter, times: 1 });
  await expect(database).not.toHaveEnqueued(invoice, {}, { delay: '1h' });
  await expect(database).not.toHaveEnqueued(invoice, {}, { retry: { backoff: 'fixed' } });
});

test('says what was enqueued instead, and in what it differs', async () => {
  await producer.enqueue(welcome, { user: 'Ada', address: { city: 'Paris' } }, { priority: 5 });
  await producer.enqueue(welcome, { user: 'Bob' });
  await producer.enqueue(invoice, { cents: 5 });
  const wanted = { user: 'Ada', address: { city: 'London' } };
  expect(await messageOf(expect(database).toHaveEnqueued(welcome, wanted, { delay: '1h' }))).toBe(
    [
      'expected a job of task "send-welcome" to be enqueued',
      '  with payload {"user":"Ada","address":{"city":"London"}}',
      '  with delay "1h"',
      '',
      '2 jobs of this task are there:',
      '  1. {"user":"Ada","address":{"city":"Paris"}}, key "ada", priority 5',
      '     payload.address.city is "Paris", not "London"',
      '     delay is none, not 3600000 ms',
      '  2. {"user":"Bob"}, key "bob"',
      '     payload.user is "Bob", not "Ada"',
      '     payload.address is not there, not {"city":"London"}',
      '     delay is none, not 3600000 ms',
      'and 1 job of other tasks:',
      '  1. send-invoice {"cents":5}',
    ].join('\n'),
  );
});

test('says that nothing of the task is there, or nothing at all', async () => {
  expect(await messageOf(expect(database).toHaveEnqueued(welcome))).toBe(
    [
      'expected a job of task "send-welcome" to be enqueued',
      '',
      'no job is there. An open transaction is seen by itself only: expect(…) what enqueued, or commit',
    ].join('\n'),
  );
  await producer.enqueue(invoice, { cents: 5 });
  expect(
    await messageOf(expect(database).toHaveEnqueued(welcome, { user: expect.any(String) as string })),
  ).toBe(
    [
      'expected a job of task "send-welcome" to be enqueued',
      '  with payload {"user":"Any<String>"}',
      '',
      'no job of this task is there, but 1 job of other tasks:',
      '  1. send-invoice {"cents":5}',
    ].join('\n'),
  );
});

test('says that jobs have ended already', async () => {
  await producer.enqueue(invoice, { cents: 5 });
  await drain({ database, tasks: [implement(invoice, () => {})] });
  expect(await messageOf(expect(database).toHaveEnqueued(invoice))).toContain(
    '1 job has ended already: look before a drain',
  );
});

test('says how many there are, where a number was expected', async () => {
  for (const cents of [1, 2, 2]) await producer.enqueue(invoice, { cents });
  await expect(database).toHaveEnqueued(invoice, { cents: 2 }, { times: 2 });
  expect(await messageOf(expect(database).toHaveEnqueued(invoice, { cents: 1 }, { times: 2 }))).toMatch(
    /^expected 2 jobs of task "send-invoice" to be enqueued, but one was\n[\s\S]*1\. \{"cents":1\}\n {5}it fits\n/,
  );
});

test('says what was enqueued, where nothing was expected', async () => {
  for (const cents of [1, 2]) await producer.enqueue(invoice, { cents });
  expect(await messageOf(expect(database).not.toHaveEnqueued(invoice, { cents: 2 }))).toBe(
    [
      'expected no job of task "send-invoice" to be enqueued, but one was',
      '  with payload {"cents":2}',
      '',
      '  1. {"cents":2}',
    ].join('\n'),
  );
  expect(await messageOf(expect(database).not.toHaveEnqueued(invoice, {}, { times: 2 }))).toMatch(
    /^expected other than 2 jobs of task "send-invoice"/,
  );
});

test('a long list is cut', async () => {
  await producer.enqueueMany(Array.from({ length: 25 }, (_, cents) => invoice.job({ cents })));
  expect(await messageOf(expect(database).toHaveEnqueued(invoice, { cents: 99 }))).toMatch(/… and 15 more$/);
});

test('sees the open transaction that it is given; once that is rolled back nothing is left', async () => {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query('begin');
  await producer.with(client).enqueue(invoice, { cents: 7 });
  await expect(client).toHaveEnqueued(invoice, { cents: 7 });
  await expect(database).not.toHaveEnqueued();
  await client.query('rollback');
  await expect(client).not.toHaveEnqueued();
  await client.end();
});

test('wrong use is told as such, whichever way it was expected', async () => {
  await expect(expect(42).not.toHaveEnqueued(invoice)).rejects.toThrow(
    /takes a test database, or a database/,
  );
  await expect(expect(database).toHaveEnqueued(implement(invoice, () => {}) as never)).rejects.toThrow(
    /task must be a task, made by defineTask, or its name/,
  );
  await expect(
    expect(database).not.toHaveEnqueued(invoice, {}, { prioritty: 1, delay: 'soon' } as never),
  ).rejects.toThrow(/prioritty: did you mean priority\?.*delay must be a duration/);
  await expect(expect(database).toHaveEnqueued(invoice, {}, { schema: 'nowhere' })).rejects.toThrow(
    /nowhere/,
  );
});
