import { defineTask } from '@pgqueue/core';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { lease } from '../../support/seed.ts';

const { database, operator, insert, item, node, reset, sql } = useDatabase();

beforeEach(reset);

describe('nodes', () => {
  test('lists them, resets by id, and knows who was never there', async () => {
    await node('worker-1');
    await node('worker-2', { heartbeat: '2026-01-01T00:00:00Z' });
    const id = await insert();
    await item(id, lease('worker-1'));
    expect(await operator.nodes.list()).toMatchObject([
      { id: 'worker-1', state: 'alive', overdue: false, leases: 1, slots: 2, pool: 'default' },
      { id: 'worker-2', state: 'alive', overdue: true, leases: 0 },
    ]);
    expect(await operator.nodes.reset('worker-1')).toEqual({ ready: 1, dead: 0, cancelled: 0 });
    // those that ended come last, whatever their names
    await node('another');
    await sql(`update pgqueue.node set state = 'left' where id = 'another'`);
    await node('zebra');
    await sql(`update pgqueue.node set state = 'draining' where id = 'zebra'`);
    expect(await operator.nodes.list()).toMatchObject([
      { id: 'worker-2', state: 'alive' },
      { id: 'zebra', state: 'draining' },
      { id: 'worker-1', state: 'lost', leases: 0 },
      { id: 'another', state: 'left' },
    ]);
    await expect(operator.nodes.reset('nobody')).rejects.toMatchObject({ code: 'not_found' });
    await operator.jobs.erase([id]);
    await item(await insert(), lease('rowless'));
    expect(await operator.nodes.reset('rowless')).toMatchObject({ ready: 1 });
  });
});

describe('queues', () => {
  test('pause, resume and settings need no job, and leave what is not named', async () => {
    await operator.queues.pause('mail');
    await operator.queues.set('mail', { pool: 'slow', retention: '2d' });
    expect(await operator.queues.list()).toEqual([
      expect.objectContaining({
        queue: 'mail',
        paused: true,
        pool: 'slow',
        retentionMs: 172_800_000,
        pending: 0,
      }),
    ]);
    await operator.queues.resume('mail');
    await operator.queues.set('mail', { retention: 0 });
    await insert({ queue: 'mail', created: '2026-01-01T00:00:00Z' });
    await insert({ queue: 'other' });
    const [mail, other] = await operator.queues.list();
    expect(mail).toMatchObject({ paused: false, pool: 'slow', retentionMs: 0, pending: 1 });
    expect(mail?.oldestMs).toBeGreaterThan(1e9);
    expect(other).toMatchObject({ queue: 'other', pool: 'default', retentionMs: 604_800_000 });
    await expect(operator.queues.pause('')).rejects.toMatchObject({ code: 'configuration' });
  });
});

describe('limits', () => {
  const none = { concurrency: null, keyConcurrency: null, rate: null, keyRate: null, weight: 1 };

  test('are set, shown, kept by what does not name them, and cleared by null', async () => {
    await operator.queues.set('mail', {
      concurrency: 5,
      keyConcurrency: 0,
      rate: { perSecond: 100, burst: 10 },
      keyRate: { perSecond: 2.5 },
      weight: 0.5,
    });
    const set = {
      concurrency: 5,
      keyConcurrency: 0,
      rate: { perSecond: 100, burst: 10 },
      keyRate: { perSecond: 2.5, burst: 2.5 },
      weight: 0.5,
    };
    await operator.queues.pause('mail');
    await insert({ queue: 'other' });
    const [mail, other] = await operator.queues.list();
    expect(mail).toMatchObject({ ...set, paused: true });
    expect(other).toMatchObject({ ...none, paused: false });
    await operator.queues.set('mail', { rate: null, keyRate: { perSecond: 0.1 } });
    expect((await operator.queues.list())[0]).toMatchObject({
      ...set,
      rate: null,
      keyRate: { perSecond: 0.1, burst: 1 },
    });
    await operator.queues.set('mail', { ...none, weight: null, pool: null, retention: null });
    expect((await operator.queues.list())[0]).toMatchObject({
      ...none,
      pool: 'default',
      retentionMs: 604_800_000,
    });
  });

  test('are taken away together', async () => {
    await operator.queues.set('mail', {
      concurrency: 5,
      keyPending: 1,
      paused: true,
      retention: '3d',
      rate: { perSecond: 5 },
    });
    await insert({ queue: 'mail' });
    await operator.queues.set('mial', { weight: 2 });
    await operator.queues.forget('mial');
    expect(await operator.queues.forget('mail')).toEqual({
      ...none,
      concurrency: 5,
      keyPending: 1,
      paused: true,
      pool: 'default',
      retentionMs: 259_200_000,
      rate: { perSecond: 5, burst: 5 },
    });
    expect(await operator.queues.list()).toMatchObject([
      { queue: 'mail', ...none, paused: false, pending: 1 },
    ]);
    await expect(operator.queues.forget('mail')).rejects.toMatchObject({ code: 'not_found' });
    await expect(operator.queues.forget('')).rejects.toMatchObject({ code: 'configuration' });
  });

  test('tell all that is wrong with them at once, and change nothing then', async () => {
    const wrong = {
      pool: '',
      retention: 'soon' as '1s',
      concurrency: 1.5,
      keyConcurrency: -1,
      rate: { perSecond: 0 },
      keyRate: { perSecond: Infinity, burst: 0.5 },
      weight: 0,
      keyConcurency: 5,
    };
    const error: unknown = await operator.queues
      .set('', wrong)
      .catch((reason: unknown) => (reason as { readonly data: unknown }).data);
    expect(error).toEqual({
      problems: [
        'queue must be a text of 1 to 100 characters, not ""',
        'there is no keyConcurency: did you mean keyConcurrency?',
        'pool must be a text of 1 to 100 characters, or null, not ""',
        'retention must be a duration, such as "30d", up to 3650d, or null, not "soon"',
        'concurrency must be a whole number from 0 to 2147483647, or null, not 1.5',
        'keyConcurrency must be a whole number from 0 to 2147483647, or null, not -1',
        'rate.perSecond must be more than 0, not 0',
        'keyRate.perSecond must be more than 0, not Infinity',
        'keyRate.burst must be 1 or more, not 0.5',
        'weight must be a number from 0.000001 to 1000000, or null, not 0',
      ],
    });
    expect(await operator.queues.list()).toEqual([]);
  });

  test('wake the scheduler', async () => {
    const listener = await database.pool.connect();
    try {
      const heard = new Promise((resolve) => {
        listener.once('notification', resolve);
      });
      await listener.query('listen "pgqueue:queue"');
      await operator.queues.set('mail', { concurrency: 1 });
      expect(await heard).toMatchObject({ channel: 'pgqueue:queue' });
    } finally {
      await listener.query('unlisten *');
      listener.release();
    }
  });
});

describe('schedules', () => {
  test('are set, changed, paused and removed', async () => {
    const options = { queue: 'mail', timeout: '30s', retry: { maxTries: 3 } } as const;
    const nightly = {
      name: 'nightly',
      cron: '0 3 * * *',
      timezone: 'Europe/Berlin',
      task: 'report',
      options,
    };
    expect(await operator.schedules.set({ ...nightly, payload: { a: 1 } })).toBe('created');
    await sql(`update pgqueue.schedule set next_slot = '2999-01-01T00:00:00Z'`);
    expect(await operator.schedules.set({ ...nightly, payload: [1] })).toBe('changed');
    const [stored] = await operator.schedules.list();
    expect(stored).toMatchObject({
      name: 'nightly',
      timezone: 'Europe/Berlin',
      payload: [1],
      options: { queue: 'mail', timeoutMs: 30_000, maxTries: 3, maxCrashes: 3, payloadVersion: 1 },
      paused: false,
      nextSlot: new Date('2999-01-01T00:00:00Z'),
    });
    await operator.schedules.set({ ...nightly, cron: '0 4 * * *' });
    expect((await operator.schedules.list())[0]?.nextSlot).toBeNull();
    await operator.schedules.pause('nightly');
    expect((await operator.schedules.list())[0]?.paused).toBe(true);
    await operator.schedules.resume('nightly');
    await operator.schedules.remove('nightly');
    expect(await operator.schedules.list()).toEqual([]);
    for (const verb of ['pause', 'resume', 'remove'] as const) {
      await expect(operator.schedules[verb]('nightly')).rejects.toMatchObject({ code: 'not_found' });
    }
    await expect(
      operator.schedules.set({ ...nightly, options: { timeout: 'soon' as '1s' } }),
    ).rejects.toMatchObject({ code: 'invalid_job' });
  });

  test('enqueues what its task says: queue, key, priority, tries, time-out, version and payload', async () => {
    const charge = defineTask({
      name: 'charge',
      payload: z.object({ customer: z.string() }),
      version: 3,
      queue: 'payments',
      key: ({ customer }) => customer,
      priority: -2,
      timeout: '30s',
      retry: { maxTries: 5 },
    });
    const job = charge.job({ customer: 'acme' });
    expect(await operator.schedules.set({ name: 'nightly', cron: '0 3 * * *', job })).toBe('created');
    await operator.schedules.runNow('nightly');
    const rows = await sql(
      `select task, queue, key, attributes, priority, max_tries, payload_version, payload, extract(epoch from timeout)::integer as timeout
       from pgqueue.queue`,
    );
    expect(rows).toEqual([
      {
        task: 'charge',
        queue: 'payments',
        key: 'acme',
        attributes: { schedule: 'nightly' },
        priority: -2,
        max_tries: 5,
        payload_version: 3,
        payload: { customer: 'acme' },
        timeout: 30,
      },
    ]);
    const single = charge.job({ customer: 'acme' }, { delay: '1h', uniqueKey: 'once' });
    await expect(operator.schedules.set({ name: 'nightly', cron: '0 3 * * *', job: single })).rejects.toThrow(
      /delay is for one job[^]*uniqueKey is for one job/,
    );
    await expect(
      operator.schedules.set({ name: 'nightly', cron: '0 3 * * *', job, task: 'other' } as never),
    ).rejects.toThrow(/task: the job says it/);
    await expect(operator.schedules.set({ name: 'nightly', cron: '0 3 * * *' } as never)).rejects.toThrow(
      /a job, or the name of a task/,
    );
    const sum = defineTask({ name: 'sum', payload: z.object({}), needs: { charges: charge } }).job({});
    await expect(operator.schedules.set({ name: 'nightly', cron: '0 3 * * *', job: sum })).rejects.toThrow(
      /reads results of the steps charges/,
    );
  });

  test.each([
    ['every day', 'UTC', /cron "every day"/],
    ['0 3 * * *', 'Mars/Base', /"Mars\/Base": the time zone must be an IANA name/],
    ['0 0 31 2 *', 'UTC', /it would never come/],
    ['0 0 0 1 1 * 2020', 'UTC', /it would never come/],
  ])('refuses a schedule that would never fire: %s in %s', async (cron, timezone, message) => {
    const set = operator.schedules.set({ name: 'never', cron, timezone, task: 'report' });
    await expect(set).rejects.toMatchObject({ code: 'configuration' });
    await expect(operator.schedules.set({ name: 'never', cron, timezone, task: 'report' })).rejects.toThrow(
      message,
    );
    expect(await sql('select name from pgqueue.schedule')).toEqual([]);
  });

  test('the doctor finds those that SQL has set and nobody can read, unless they are paused', async () => {
    await sql(`insert into pgqueue.schedule (name, cron, timezone, task, next_slot, paused)
      select s.*, 'report', now() + interval '1 hour', s.name = 'paused'
      from (values ('daily', 'every day', 'UTC'), ('february', '0 0 31 2 *', 'UTC'), ('mars', '0 3 * * *', 'Mars/Base'),
                   ('later', '0 0 0 1 1 * 2099', 'UTC'), ('paused', 'every day', 'UTC')) s (name, cron, timezone)`);
    const { healthy, findings } = await operator.doctor();
    expect(healthy).toBe(false);
    expect(findings).toMatchObject([
      { check: 'unreadable_schedules', count: 3, samples: ['daily', 'february', 'mars'], mendable: false },
    ]);
  });
});
