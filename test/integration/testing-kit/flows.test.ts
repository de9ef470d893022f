import { randomBytes } from 'node:crypto';
import { defineTask, flow, implement, signal, snooze, timer } from '@pgqueue/core';
import { encrypted } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { addClock, drain } from '@pgqueue/testing';
import type { DrainedFlow, TestClock } from '@pgqueue/testing';
import '@pgqueue/testing/vitest';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';

const ask = defineTask({ name: 'ask', payload: z.object({ invoice: z.string() }) });
const pay = defineTask({ name: 'pay', payload: z.object({ invoice: z.string() }), retry: { maxTries: 1 } });
const remind = defineTask({ name: 'remind', payload: z.object({}) });
const approved = signal(z.object({ by: z.string() }));
const dayMs = 86_400_000;

/** An approval: it is paid when somebody says so, and reminded of after three days. */
const approval = flow('approval')
  .step('ask', ask.job({ invoice: 'i-7' }))
  .step('ok', approved, { needs: ['ask'] })
  .step('three days', timer('3d'), { needs: ['ask'] })
  .step('remind', remind.job({}), { needs: ['three days'] })
  .step('pay', pay.job({ invoice: 'i-7' }), { needs: ['ok'] });

const { test: database, operator } = useDatabase();
let clock: TestClock;
const producer = opened(() => createProducer({ connectionString: database.url, notify: false }));
const done = [ask, pay, remind].map((task) => implement(task as typeof ask, () => {}));

beforeAll(async () => {
  vi.stubEnv('PGQUEUE_TEST_TIMEOUT_MS', '25000'); // other tests run at the same time
  clock = await addClock({ connectionString: database.url });
});
afterEach(async () => {
  await database.clear();
  await clock.reset();
});
afterAll(() => vi.unstubAllEnvs());

/** Outcomes of a flow's steps, or the states of those that have not ended. */
function outcomes(flows: readonly DrainedFlow[]): Readonly<Record<string, string>> {
  const steps = Object.entries(flows[0]?.steps ?? {});
  return Object.fromEntries(steps.map(([name, { state, outcome }]) => [name, outcome ?? state]));
}

describe('a drain', () => {
  test('stops where a flow waits, goes on after a signal, and reminds after three days', async () => {
    const run = await producer.start(approval, { key: 'acme', deadline: '7d' });
    const asked = await drain({ database, tasks: done });
    expect(asked.flows).toEqual([
      {
        id: run.id,
        name: 'approval',
        key: 'acme',
        state: 'open',
        reason: null,
        steps: {
          ask: { kind: 'jobs', state: 'ended', outcome: 'done', jobs: counts({ done: 1 }) },
          ok: { kind: 'signal', state: 'open', outcome: null, jobs: counts({}) },
          'three days': { kind: 'timer', state: 'open', outcome: null, jobs: counts({}) },
          remind: { kind: 'jobs', state: 'blocked', outcome: null, jobs: counts({ left: 1 }) },
          pay: { kind: 'jobs', state: 'blocked', outcome: null, jobs: counts({ left: 1 }) },
        },
      },
    ]);
    expect(asked.left.nextInMs).toBeGreaterThan(2.9 * dayMs);
    expect(asked.left.nextInMs).toBeLessThanOrEqual(3 * dayMs);

    const later = await drain({ database, tasks: done, ahead: '4d' });
    expect(later.jobs.map(({ task }) => task)).toEqual(['remind']);
    expect(outcomes(later.flows)).toMatchObject({ 'three days': 'done', remind: 'done', ok: 'open' });
    expect(later.left.nextInMs).toBeLessThanOrEqual(3 * dayMs);

    expect(await producer.signal(run.id, 'ok', { by: 'ada' }, approved)).toBe('signalled');
    const paid = await drain({ database, tasks: done });
    expect(paid.flows).toMatchObject([{ state: 'done', steps: { pay: { outcome: 'done' } } }]);
    expect((await drain({ database, tasks: done })).flows).toEqual([]);
    expect(await run.ended()).toEqual({ outcome: 'done', reason: null });
  });

  test('comes to the deadline, and cancels the flow', async () => {
    await producer.start(approval, { deadline: '2d' });
    const { flows, left } = await drain({ database, tasks: done, ahead: '3d' });
    expect(flows).toMatchObject([{ state: 'cancelled', reason: 'its deadline has passed' }]);
    expect(outcomes(flows)).toEqual({
      ask: 'done',
      ok: 'cancelled',
      'three days': 'cancelled',
      remind: 'skipped',
      pay: 'skipped',
    });
    expect(left.nextInMs).toBeNull();
  });

  test('tells of a flow that was deleted before the drain was over', async () => {
    const run = await producer.start(flow('short').step('only', ask.job({ invoice: 'i' })));
    const { flows } = await drain({ database, tasks: done, ahead: '30d' });
    expect(flows).toMatchObject([{ id: run.id, state: 'done' }]);
    expect(await database.query('select id from pgqueue.flow', [])).toEqual([]);
  });

  test('tells the failed step, the skipped one, and the numbers of jobs', async () => {
    const risky = flow('risky')
      .step('pay', [pay.job({ invoice: 'good' }), pay.job({ invoice: 'bad' })])
      .step('ask', ask.job({ invoice: 'i' }), { needs: ['pay'] })
      .step('remind', remind.job({}), { needs: { pay: 'failed' } });
    await producer.start(risky);
    const failing = implement(pay, ({ invoice }) => {
      if (invoice === 'bad') throw new Error('no money');
    });
    const { flows } = await drain({
      database,
      tasks: [failing, ...done.filter(({ task }) => task.name !== 'pay')],
    });
    expect(flows).toMatchObject([{ state: 'failed', reason: 'a step failed' }]);
    expect(flows[0]?.steps['pay']?.jobs).toEqual(counts({ done: 1, dead: 1 }));
    expect(outcomes(flows)).toEqual({ pay: 'failed', ask: 'skipped', remind: 'done' });
  });

  test('moves on more flows than one call of the leader looks at', async () => {
    for (let n = 0; n < 120; n += 1) await producer.start(flow('many').step('wait', timer('1h')));
    // a flow whose waiter is gone is found by looking at all flows
    await database.query(
      `update pgqueue.flow set waiter = gen_random_uuid() where id = (select id from pgqueue.flow order by id desc limit 1)`,
      [],
    );
    const first = await drain({ database, tasks: done });
    // in the order of their ids, which within a millisecond is not that of their starts
    const states = first.flows.map(({ state }) => state);
    expect(states.toSorted()).toEqual(['cancelled', ...Array<string>(119).fill('open')]);
    const { flows } = await drain({ database, tasks: done, ahead: '2h' });
    expect(flows.map(({ state }) => state)).toEqual(Array<string>(119).fill('done'));
  });

  test('hands results of steps on, snoozes included', async () => {
    const count = defineTask({ name: 'count', payload: z.object({ n: z.int() }), result: z.int() });
    const sum = defineTask({ name: 'sum', payload: z.object({}), needs: { counts: count }, result: z.int() });
    const seen = new Set<number>();
    const tasks = [
      implement(count, ({ n }) => {
        if (seen.has(n)) return n;
        seen.add(n);
        return snooze('1d');
      }),
      implement(sum, async (_, { needs }) => {
        let total = 0;
        for await (const { result } of needs.counts) total += result;
        return total;
      }),
    ];
    const summing = flow('summing')
      .step(
        'counts',
        [1, 2, 3].map((n) => count.job({ n })),
      )
      .step('sum', sum.job({}));
    await producer.start(summing);
    const { jobs, flows } = await drain({ database, tasks, ahead: '2d' });
    expect(jobs.at(-1)).toMatchObject({ task: 'sum', result: 6 });
    expect(flows).toMatchObject([{ state: 'done' }]);
  });

  test('leaves a job waiting for its own flow, also with delayed jobs', async () => {
    await producer.enqueue(ask, { invoice: 'i' });
    let attempts = 0;
    const suspends = implement(ask, async (_, { job }) => {
      attempts += 1;
      if (attempts > 1) return;
      // what a durable handler will do: a flow of its own, and a suspension until it ends
      const [held] = await database.query<{ readonly token: string }>(
        'select lock_token as token from pgqueue.work_queue where id = $1',
        [job.id],
      );
      await database.query('select pgqueue.suspend_job($1, $2, null, $3)', [
        job.id,
        held?.token,
        JSON.stringify({
          id: '01980000-0000-7000-8000-000000000001',
          name: 'sleep',
          steps: [{ name: 'wake', kind: 'timer', delay_ms: 3 * dayMs }],
        }),
      ]);
    });
    const { left } = await drain({ database, tasks: [suspends], delayed: true });
    expect(attempts).toBe(1);
    expect(left.nextInMs).toBeLessThanOrEqual(3 * dayMs);
    const { flows } = await drain({ database, tasks: [suspends], ahead: '4d' });
    expect(attempts).toBe(2);
    expect(flows).toMatchObject([{ name: 'sleep', state: 'done' }]);
    expect((await operator.jobs.list({ status: 'done' })).items).toHaveLength(1);
  });

  test('says that nothing is due by time when a job waits for a signal, and then what is', async () => {
    const waits = implement(ask, (_, ctx) => ctx.waitForSignal('ok'));
    const { id } = await producer.enqueue(ask, { invoice: 'i' });
    const first = await drain({ database, tasks: [waits] });
    expect(first.left).toMatchObject({ delayed: 1, nextInMs: null });
    await producer.enqueue(remind, {}, { delay: '2d' });
    const { left } = await drain({ database, tasks: [waits], ahead: '1d' });
    expect(left.nextInMs).toBeLessThanOrEqual(dayMs);
    await producer.signalJob(id, 'ok', 5);
    expect((await drain({ database, tasks: [waits] })).jobs).toMatchObject([{ outcome: 'done', result: 5 }]);
  });

  test.each([
    ['delayed jobs, plain', { delayed: true }, undefined],
    [
      'retries, encrypted',
      { retries: true },
      encrypted({ keys: [{ id: 'k', key: randomBytes(32) }], plain: 'refuse' }),
    ],
  ])('leaves a job asleep in its handler, also with %s', async (_name, options, codec) => {
    const own = codec === undefined ? {} : { codec };
    const enqueues = createProducer({ connectionString: database.url, notify: false, ...own });
    await enqueues.enqueue(ask, { invoice: 'i' }, { retry: { base: 1 } });
    await enqueues.close();
    const sleeper = implement(ask, async (_, ctx) => {
      if (ctx.job.tries === 0 && 'retries' in options) throw new Error('once');
      await ctx.sleep('three days', '3d');
    });
    const common = { database, tasks: [sleeper], ...options, ...own };
    const first = await drain(common);
    expect(first.counts).toMatchObject({ snooze: 1, done: 0 });
    expect(first.left.delayed).toBe(1);
    expect((await drain({ ...common, ahead: '4d' })).counts).toMatchObject({ snooze: 0, done: 1 });
  });
});

test('flows are started, signalled and cancelled by the clock of the test database', async () => {
  await clock.advanceTo(new Date('2040-01-01T12:00:00Z'));
  const fresh = createProducer({ connectionString: database.url });
  const { id } = await fresh.start(approval, { deadline: '1d' });
  await drain({ database, tasks: done });
  await database.query('select pgqueue.cancel_flow($1)', [id]);
  await fresh.close();
  await drain({ database, tasks: done });
  const [times] = await database.query(
    `select to_char(created at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as created, to_char(deadline at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as deadline,
       stopping >= created as stopped, ended >= stopping as ended from pgqueue.flow`,
    [],
  );
  expect(times).toMatchObject({ stopped: true, ended: true });
  expect(times).toMatchObject({
    created: expect.stringMatching(/^2040-01-01 12:0/),
    deadline: expect.stringMatching(/^2040-01-02 12:0/),
  });
});

describe('toHaveStarted', () => {
  test('sees flows of an open transaction, by name, keys, deadline and number', async () => {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query('begin');
    const { id } = await producer
      .with(client)
      .start(approval, { key: 'acme', uniqueKey: 'i-7', deadline: '7d' });
    await expect(client).toHaveStarted(approval, {
      id,
      key: 'acme',
      uniqueKey: 'i-7',
      deadline: '7d',
      times: 1,
    });
    await expect(client).toHaveStarted('approval', {
      state: 'open',
      key: expect.stringMatching(/^a/) as string,
    });
    await expect(client).not.toHaveStarted('other');
    await expect(client).not.toHaveStarted(approval, { state: 'done' });
    await expect(client).toHaveEnqueued(ask, { invoice: 'i-7' });
    await expect(client).not.toHaveEnqueued(pay);
    await expect(database).not.toHaveStarted();
    await client.query('rollback');
    await expect(client).not.toHaveStarted();
    await client.end();
  });

  test('says which flows are there, and in what they differ', async () => {
    expect(await messageOf(expect(database).toHaveStarted(approval))).toBe(
      [
        'expected a flow of name "approval" to be started',
        '',
        'no flow is there. An open transaction is seen by itself only: expect(…) what started it, or commit',
      ].join('\n'),
    );
    const one = await producer.start(approval, { key: 'acme' });
    const wanted = { key: 'globex', deadline: '1d' } as const;
    expect(await messageOf(expect(database).toHaveStarted(approval, wanted))).toBe(
      [
        'expected a flow of name "approval" to be started',
        '  with key "globex"',
        '  with deadline "1d"',
        '',
        '1 flow is there:',
        `  1. approval (${one.id}), open, key "acme"`,
        '     key is "acme", not "globex"',
        '     deadline is none, not 86400000 ms',
      ].join('\n'),
    );
    expect(await messageOf(expect(database).not.toHaveStarted(approval))).toBe(
      [
        'expected no flow of name "approval" to be started',
        '',
        `  1. approval (${one.id}), open, key "acme"`,
      ].join('\n'),
    );
    expect(await messageOf(expect(database).toHaveStarted(approval, { times: 2 }))).toMatch(
      /^expected 2 flows of name "approval" to be started\n/,
    );
  });

  test('says how it is wrongly used', async () => {
    await expect(
      expect(database).toHaveStarted(ask as never, { stat: 'open', times: -1 } as never),
    ).rejects.toThrow(
      /flow must be a flow, made by flow\(name\), or its name.*there is no stat.*times must be/,
    );
    await expect(expect(42).toHaveStarted()).rejects.toThrow(
      /toHaveStarted: expect\(…\) takes a test database/,
    );
  });
});

/** Resolves to the message of a failing matcher. */
async function messageOf(expectation: Promise<void>): Promise<string> {
  return expectation.then(
    () => 'it passed',
    (error: Error) => error.message,
  );
}

function counts(given: Partial<DrainedFlow['steps'][string]['jobs']>): DrainedFlow['steps'][string]['jobs'] {
  return { done: 0, dead: 0, other: 0, left: 0, ...given };
}
