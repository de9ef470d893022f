import {
  circuitBreaker,
  concurrency,
  databaseHealth,
  gate,
  ordered,
  policy,
  rate,
  turns,
} from '@pgqueue/core';
import type { Gate } from '@pgqueue/core';
import { maintenanceWindow } from '@pgqueue/scheduler';
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { hourMs, isIn, openExplained } from './explain-support.ts';
import { until } from '../scheduler/support.ts';

/**
 * Each test holds a job by a gate of a policy, and asks the leader for the reason. If the test can open the
 * gate soon, it checks that the job then goes.
 */
const bench = opened(openExplained);
afterEach(() => bench.clear());

const by = (...gates: readonly Gate[]): ReturnType<typeof policy> => policy({ gates, order: turns() });
describe('the gates of a policy', () => {
  test('concurrency by an attribute, over queues', async () => {
    const hand = await bench.hand();
    const region = concurrency({ name: 'region', by: ({ attributes }) => attributes['region'], limit: 1 });
    await bench.leads(by(region));
    const eu = { region: 'eu' };
    const [first = '', held = '', free = ''] = await bench.add(
      { queue: 'a', attributes: eu },
      { queue: 'b', attributes: eu },
      { queue: 'b', key: 'k', attributes: { region: 'us' } },
    );
    await bench.scheduled(first, free);
    expect(await bench.holds(held)).toEqual([
      { kind: 'held', gate: 'region', message: 'region eu has 1 of 1 in flight', until: null },
    ]);
    await hand.claims();
    await hand.ends(first, 'done');
    await bench.scheduled(held, free);
  });

  test('a gate of a user, whose reason has what PostgreSQL refuses and is too long', async () => {
    await bench.hand();
    const odd = gate({ name: 'odd', admits: () => `no\u0000 \ud800${'x'.repeat(100_000)}` });
    await bench.leads(by(odd));
    const [id = ''] = await bench.add({});
    const [held] = await bench.holds(id);
    expect(held).toMatchObject({
      kind: 'held',
      gate: 'odd',
      message: expect.stringMatching(/^no \ufffdx+$/),
    });
  });

  test('a rate by an attribute, with a cost', async () => {
    await bench.hand();
    const tokens = rate({
      name: 'tokens',
      by: ({ attributes }) => attributes['model'],
      cost: ({ attributes }) => Number(attributes['tokens']),
      perSecond: 1,
      burst: 3_600,
    });
    await bench.leads(by(tokens));
    const [first = '', id = ''] = await bench.add(
      { key: 'a', attributes: { model: 'm', tokens: 3_600 } },
      { key: 'b', attributes: { model: 'm', tokens: 1_800 } },
    );
    await bench.scheduled(first);
    const [held] = await bench.holds(id);
    expect(held).toMatchObject({
      kind: 'held',
      gate: 'tokens',
      message: expect.stringContaining('tokens m'),
    });
    isIn(held?.kind === 'held' ? held.until : null, 1_800_000);
  });

  test('ordered keys: what is in flight, and what waits for its retry, holds the line', async () => {
    const hand = await bench.hand();
    await bench.leads(by(ordered()));
    const job = { queue: 'mail', key: 'acme' };
    const [first = '', second = '', third = ''] = await bench.add(job, job, job);
    await bench.scheduled(first);
    const line = 'key acme of queue mail is ordered:';
    const held = { kind: 'held', gate: 'ordered', until: null };
    expect(await bench.holds(second)).toEqual([{ ...held, message: `${line} its job ${first} is ready` }]);
    await hand.claims();
    await bench.hint();
    await until('the leader sees it run', async () => {
      const [reason] = await bench.holds(second);
      return reason?.kind === 'held' && reason.message === `${line} its job ${first} is running`;
    });
    await hand.ends(first, 'retry', hourMs);
    const retry = await until('the retry holds the line', async () => {
      const [reason] = await bench.holds(third);
      return reason?.kind === 'held' && reason.message.includes('to run again') ? reason : undefined;
    });
    isIn(retry.until, hourMs);
    await bench.operator.jobs.cancel([first]);
    await bench.hint();
    await bench.scheduled(second);
    expect(await bench.holds(third)).toEqual([{ ...held, message: `${line} its job ${second} is ready` }]);
  });

  test('ordered keys: a job that waits in its handler holds the line, and nobody knows until when', async () => {
    const hand = await bench.hand();
    await bench.leads(by(ordered()));
    const job = { queue: 'mail', key: 'acme' };
    const [first = '', second = ''] = await bench.add(job, job);
    await bench.scheduled(first);
    await hand.claims();
    await bench.database.query(
      `insert into pgqueue.flow (id, name, waiter, waiter_created, waiter_token)
       select gen_random_uuid(), 'waits', q.id, q.created, w.lock_token from pgqueue.queue q join pgqueue.work_queue w using (id)`,
      [],
    );
    await hand.ends(first, 'retry', 3.2e11);
    const explained = await until('the leader sees it wait', async () => {
      const found = await bench.explain(second);
      return found.start?.blocked === true && found;
    });
    const message = 'key acme of queue mail is ordered: one of its jobs waits in its handler';
    expect(explained.reasons).toContainEqual({ kind: 'held', gate: 'ordered', message, until: null });
    expect(explained.start).toEqual({ at: null, blocked: true, evidence: [message] });
    await bench.operator.jobs.cancel([first]);
    await bench.hint();
    await bench.scheduled(second);
  });

  test("ordered keys: a job whose row an application's transaction holds, and those behind it", async () => {
    await bench.hand();
    const job = { queue: 'mail', key: 'acme' };
    const [first = '', second = ''] = await bench.add(job, job);
    const application = new pg.Client({ connectionString: bench.test.url });
    await application.connect();
    try {
      await application.query('begin');
      await application.query('select from pgqueue.queue where id = $1 for update', [first]);
      await bench.leads(by(ordered()));
      const reasons = await until('the leader has met the lock', async () => {
        const held = await bench.holds(first);
        return held.length > 0 && held;
      });
      expect(reasons).toMatchObject([
        { kind: 'held', gate: 'locked_row', message: expect.stringContaining('holds its row'), until: null },
      ]);
      expect(await bench.holds(second)).toMatchObject([
        { kind: 'held', gate: 'ordered', message: expect.stringContaining(`its job ${first} goes first`) },
      ]);
    } finally {
      await application.end();
    }
    await bench.scheduled(first);
  });

  test("a delayed job that is due, and whose row an application's transaction holds", async () => {
    await bench.hand();
    const [id = ''] = await bench.add({});
    const late = `update pgqueue.queue set run_after = clock_timestamp() - interval '1 minute' where id = $1`;
    await bench.database.query(late, [id]);
    const application = new pg.Client({ connectionString: bench.test.url });
    await application.connect();
    try {
      await application.query('begin');
      await application.query('select from pgqueue.queue where id = $1 for update', [id]);
      await bench.leads();
      expect((await bench.operator.explain(id)).reasons).toMatchObject([
        { kind: 'held', gate: 'locked_row', message: expect.stringContaining('holds its row'), until: null },
      ]);
    } finally {
      await application.end();
    }
    await bench.scheduled(id);
  });

  test('a circuit breaker that has opened, until it tries again', async () => {
    const hand = await bench.hand();
    const breaker = circuitBreaker({
      name: 'provider',
      by: ({ key }) => key,
      errorRate: 0.5,
      minimum: 2,
      windowMs: 60_000,
      openMs: hourMs,
    });
    await bench.leads(by(breaker));
    const bad = await bench.add({ key: 'acme' }, { key: 'acme' });
    await bench.scheduled(...bad);
    await hand.claims();
    for (const id of bad) await hand.ends(id, 'dead');
    const [id = '', other = ''] = await bench.add({ key: 'acme' }, { key: 'globex' });
    await bench.scheduled(other);
    const [held] = await bench.holds(id);
    expect(held).toMatchObject({ kind: 'held', gate: 'provider', message: expect.stringContaining('acme') });
    isIn(held?.kind === 'held' ? held.until : null, hourMs);
  });

  test('the health of the database', async () => {
    await bench.hand({ slots: 1_000 });
    const session = await bench.database.pool.connect();
    try {
      await session.query('begin isolation level repeatable read');
      await session.query('select 1 from pgqueue.queue');
      await bench.leads(by(databaseHealth({ oldestSnapshotMs: 1 })));
      // those that come before it is read go
      const id = await until('its health is read', async () => {
        const [one = ''] = await bench.add({});
        const { reasons } = await bench.operator.explain(one);
        return reasons.some(({ kind }) => kind === 'held') && one;
      });
      expect(await bench.holds(id)).toEqual([
        {
          kind: 'held',
          gate: 'database_health',
          message: expect.stringMatching(
            /^the database is not well, nothing goes: a session holds a snapshot/,
          ),
          until: null,
        },
      ]);
    } finally {
      await session.query('rollback');
      session.release();
    }
  });

  test('a maintenance window, until its end', async () => {
    await bench.hand();
    const always = { cron: '0 * * * *', durationMs: 24 * hourMs, mode: 'closed_during' } as const;
    await bench.leads(
      by(maintenanceWindow({ name: 'nightly', ...always, when: ({ queue }) => queue === 'mail' })),
    );
    const [id = '', free = ''] = await bench.add({ queue: 'mail' }, { queue: 'other' });
    await bench.scheduled(free);
    expect(await bench.holds(id)).toMatchObject([
      { kind: 'held', gate: 'nightly', message: expect.stringContaining('nightly') },
    ]);
  });

  test('others to go with, until the first of them is old enough', async () => {
    await bench.hand();
    const together = policy({
      order: turns(),
      coalesce: [{ when: ({ queue }) => queue === 'mail', max: 3, ageMs: hourMs }],
    });
    await bench.leads(together);
    const job = { queue: 'mail', key: 'acme' };
    const [a = '', b = ''] = await bench.add(job, job);
    const [held] = await bench.holds(b);
    expect(held).toMatchObject({
      kind: 'held',
      gate: 'coalescing',
      message: 'it waits for more jobs of task t and its key, to go together: 2 of 3 are there',
    });
    isIn(held?.kind === 'held' ? held.until : null, hourMs);
    const [c = ''] = await bench.add(job);
    await bench.scheduled(a, b, c);
  });

  test('a gate of one’s own, and one that fetches', async () => {
    await bench.hand();
    let open = false;
    const own = gate({
      name: 'region',
      admits: ({ attributes }) => attributes['region'] !== 'moon' || 'nobody works on the moon',
    });
    const fetching = gate<{ open: boolean }>({
      name: 'partner',
      prepare: { everyMs: 20, deadlineMs: 1_000, fetch: () => Promise.resolve({ open }) },
      admits: (_job, _snapshot, fetched) => fetched?.value.open === true || 'the partner is closed',
    });
    await bench.leads(by(own, fetching));
    const [here = '', moon = ''] = await bench.add(
      { key: 'a' },
      { key: 'b', attributes: { region: 'moon' } },
    );
    const closed = { kind: 'held', gate: 'partner', message: 'the partner is closed', until: null };
    const far = { kind: 'held', gate: 'region', message: 'nobody works on the moon', until: null };
    expect(await bench.holds(here)).toEqual([closed]);
    expect(await bench.holds(moon)).toEqual([far, closed]);
    open = true;
    await bench.scheduled(here);
    expect(await bench.holds(moon)).toEqual([far]);
  });
});

test('all at once: each rule is said, those that end by time with their end', async () => {
  const hand = await bench.hand({ slots: 1 });
  await bench.operator.queues.set('mail', {
    concurrency: 1,
    keyConcurrency: 1,
    rate: { perSecond: 1 / 3_600 },
    keyRate: { perSecond: 1 / 3_600 },
  });
  await bench.leads(
    by(
      concurrency({ name: 'tenant', by: ({ key }) => key, limit: 1 }),
      ordered(),
      gate({ name: 'own', admits: ({ attributes }) => attributes['late'] !== 1 || 'it is late' }),
    ),
  );
  const job = { queue: 'mail', key: 'acme' };
  const [first = '', id = ''] = await bench.add(job, { ...job, attributes: { late: 1 } });
  await bench.scheduled(first);
  await hand.claims();
  await bench.operator.queues.pause('mail');
  const reasons = await bench.holds(id);
  const names = reasons.map((reason) => (reason.kind === 'held' ? reason.gate : reason.kind));
  expect(names).toEqual([
    'paused_queue',
    'queue_concurrency',
    'key_concurrency',
    'queue_rate',
    'key_rate',
    'tenant',
    'ordered',
    'own',
    'no_free_slot',
  ]);
  expect(reasons.filter((reason) => reason.kind === 'held' && reason.until !== null)).toHaveLength(2);
});
