import type { Unique } from '@pgqueue/core';
import { defineTask } from '@pgqueue/core';
import { cancel, expire, release, settle } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { batchesOn } from '../sql/batches-support.ts';
import { dispatchBundles } from '../sql/bundles-support.ts';
import type { Member, Session } from '../sql/support.ts';
import { openGround, settlement } from '../sql/support.ts';

const hello = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });

const ground = opened(openGround);
const batches = batchesOn(ground);
const errors: unknown[] = [];
let counted = 0;
const producer = opened(() =>
  createProducer({
    connectionString: ground.test.url,
    connectionsMax: 20,
    notify: false,
    observe: (event) => {
      if (event.type === 'database.error') errors.push(event.error);
      if (event.type === 'enqueued') counted += event.count;
    },
  }),
);
let node: Member;
let first: Session;
let second: Session;
let third: Session;
beforeEach(async () => {
  await ground.reset();
  node = await ground.node();
  [first, second, third] = await Promise.all([ground.session(), ground.session(), ground.session()]);
});
afterEach(async () => {
  await Promise.all([first, second, third].map((session) => session.end()));
  await ground.sound();
  const [error] = errors.splice(0);
  if (error !== undefined) throw new Error('the producer had to repeat an enqueue', { cause: error });
});

const unique = (key = 'u'): { readonly uniqueKey: Unique } => ({
  uniqueKey: { key, onConflict: 'supersede' },
});
const supersede = (n = 2, key = 'u') => producer.enqueue(hello, { n }, unique(key));
/** The call in plain SQL. */
const inSql = (id: string | null = null, again = false): string =>
  `select job_id, outcome from pgqueue.enqueue_unique('${JSON.stringify([
    { n: 0, id, task: 'hello', unique_key: 'u', mode: 'supersede', payload: { n: 2 }, again },
  ])}')`;

const jobs = () =>
  ground.sql(
    `select id, status, cancelled is not null as told, unique_key from pgqueue.job order by created, status`,
  );
const dispatchAll = async (): Promise<unknown> =>
  ground.dispatch((await ground.sql('select id from pgqueue.queue order by id')).map(({ id }) => String(id)));
const statusOf = async (id = ''): Promise<unknown> => (await ground.job(id))['status'];
const waiting = (columns = {}): Promise<string> =>
  ground.insert({ unique_key: 'u', payload: { n: 1 }, ...columns });

describe('an older job that waits ends as cancelled', () => {
  test.each(['pending', 'delayed', 'ready'] as const)('%s', async (state) => {
    const id = await waiting({
      run_after: state === 'delayed' ? new Date(Date.now() + 3_600_000) : null,
      priority: 5,
      attributes: { plan: 'pro' },
    });
    if (state === 'ready') await ground.dispatch([id]);
    expect(await statusOf(id)).toBe(state);
    const answer = await supersede();
    expect(answer).toEqual({ id: expect.not.stringMatching(id), outcome: 'superseded' });
    expect(await jobs()).toEqual([
      { id, status: 'cancelled', told: false, unique_key: 'u' },
      { id: answer.id, status: 'pending', told: false, unique_key: 'u' },
    ]);
    expect(await ground.sql('select payload, priority, attributes from pgqueue.history')).toEqual([
      { payload: { n: 1 }, priority: 5, attributes: { plan: 'pro' } },
    ]);
    expect(await ground.sql('select payload, priority, attributes from pgqueue.queue')).toEqual([
      { payload: { n: 2 }, priority: 0, attributes: {} },
    ]);
    expect(await ground.one('select count(*)::integer from pgqueue.work_queue')).toBe(0);
  });

  test('without an older job it is enqueued as any other; each newer job counts as enqueued', async () => {
    counted = 0;
    expect((await supersede()).outcome).toBe('enqueued');
    expect((await supersede(2, 'v')).outcome).toBe('enqueued');
    expect((await supersede(3)).outcome).toBe('superseded');
    await producer.enqueueMany([4, 5].map((n) => hello.job({ n }, unique('v'))));
    expect(counted).toBe(5);
  });

  test('in a ready batch and in a ready bundle: the other jobs go on', async () => {
    for (const dispatch of [
      (ids: string[]) => batches.dispatch([ids]),
      (ids: string[]) => dispatchBundles(ground.database, [ids]),
    ]) {
      await ground.reset();
      node = await ground.node();
      await ground.sql(`update pgqueue.node set tasks = jsonb_set(tasks, '{hello,batch}', 'true')`);
      const [a = '', c = ''] = await batches.insert(2);
      const b = await waiting();
      await dispatch([a, b, c]);
      const { id, outcome } = await supersede();
      expect(outcome).toBe('superseded');
      expect(await Promise.all([b, id].map(statusOf))).toEqual(['cancelled', 'pending']);
      const claimed = (await batches.claim(node)).flatMap((row) => row.jobs.map((job) => job.id));
      expect(claimed).toEqual([a, c]);
      await ground.sound();
    }
  });

  test('of two jobs in one call, the later one stays', async () => {
    const answers = await producer.enqueueMany([1, 2].map((n) => hello.job({ n }, unique())));
    expect(answers.map(({ outcome }) => outcome)).toEqual(['enqueued', 'superseded']);
    expect(await Promise.all(answers.map(({ id }) => statusOf(id)))).toEqual(['cancelled', 'pending']);
  });

  test('where a queue takes one job of a key, the newer one fits', async () => {
    await ground.sql(`insert into pgqueue.queue_config (queue, key_pending) values ('default', 1)`);
    await supersede(1);
    expect((await supersede(2)).outcome).toBe('superseded');
    expect(await ground.one('select payload from pgqueue.queue')).toEqual({ n: 2 });
  });

  test('where its queue keeps no history, nothing of it is left', async () => {
    await ground.sql(`insert into pgqueue.queue_config (queue, retention) values ('default', '0')`);
    await supersede(1);
    const { id } = await supersede(2);
    expect((await jobs()).map((job) => job['id'])).toEqual([id]);
  });

  test.each([`it's`, '"\\', '$1 ? %s', '\u{1F986}'.repeat(250), ' ', '{}', "'; drop table queue --"])(
    'under the key %j',
    async (key) => {
      const older = await supersede(1, key);
      const newer = await supersede(2, key);
      expect(newer.outcome).toBe('superseded');
      expect(await Promise.all([older, newer].map(({ id }) => statusOf(id)))).toEqual([
        'cancelled',
        'pending',
      ]);
    },
  );
});

describe('an older job that runs is told to stop', () => {
  test('and gives up its key; the next one supersedes the newer job', async () => {
    const { id } = await ground.running(node, { unique_key: 'u' });
    const answer = await supersede();
    expect(answer.outcome).toBe('superseded');
    const older = { id, status: 'running', told: true, unique_key: null };
    expect(await jobs()).toEqual([older, { id: answer.id, status: 'pending', told: false, unique_key: 'u' }]);
    const newest = await supersede(3);
    expect(await jobs()).toEqual([
      older,
      { id: answer.id, status: 'cancelled', told: false, unique_key: 'u' },
      { id: newest.id, status: 'pending', told: false, unique_key: 'u' },
    ]);
  });

  test.each(['retry', 'snooze', 'release', 'crash'] as const)(
    'it does not run again after a %s',
    async (end) => {
      const lease = await ground.running(node, { unique_key: 'u' });
      await supersede();
      if (end === 'release') await release(ground.database, [lease]);
      else if (end === 'crash') await ground.sql('select pgqueue.reset_node($1)', [node.id]);
      else await ground.settle([lease], end, { data: { message: 'no' }, delayMs: 0 });
      expect(await statusOf(lease.id)).toBe('cancelled');
    },
  );

  test('in a batch: the other jobs of it run on', async () => {
    const [a = '', c = ''] = await batches.insert(2);
    const b = await waiting();
    await batches.dispatch([[a, b, c]]);
    await batches.claim(node);
    const { id } = await supersede();
    expect(await jobs()).toMatchObject([
      { id: a, status: 'running', told: false },
      { id: c, status: 'running', told: false },
      { id: b, status: 'running', told: true },
      { id, status: 'pending', told: false },
    ]);
  });
});

describe('at the same time as', () => {
  const claim = (): string => `select id, payload from pgqueue.claim('node', '${node.incarnation}', 10)`;

  test('a claim that stays open: the older job may run once, and does not start again', async () => {
    const id = await waiting();
    await ground.dispatch([id]);
    await first.sql('begin');
    expect(await first.sql(claim())).toHaveLength(1);
    expect(await second.sql(inSql())).toMatchObject([{ outcome: 'superseded' }]);
    await first.sql('commit');
    expect(await ground.job(id)).toMatchObject({ status: 'running', unique_key: null });
    await ground.sql('select pgqueue.reset_node($1)', [node.id]);
    node = await ground.node();
    expect(await ground.claim(node)).toEqual([]);
    expect(await expire(ground.database, ground.leader(), 10)).toBe(1);
    expect(await statusOf(id)).toBe('expired');
  });

  test('a claim that commits soon: the older job is told to stop', async () => {
    let told = false;
    // a slow machine may commit too late in some rounds
    for (let round = 0; round < 50 && !told; round += 1) {
      await ground.reset();
      node = await ground.node();
      const id = await waiting();
      await ground.dispatch([id]);
      await first.sql('begin');
      await first.sql(claim());
      const superseding = second.sql(inSql()).then(() => true);
      const sleeps = async (): Promise<boolean> =>
        (await ground.one('select wait_event from pg_stat_activity where pid = $1', [second.pid])) ===
        'PgSleep';
      while (!(await Promise.race([superseding, sleeps()])));
      await first.sql('commit');
      await superseding;
      told = (await ground.job(id))['cancelled'] !== null;
    }
    expect(told).toBe(true);
  });

  test('claims: what was claimed is told to stop, or does not start again', async () => {
    for (let round = 0; round < 30; round += 1) {
      await ground.reset();
      node = await ground.node();
      const id = await waiting();
      await ground.dispatch([id]);
      const [answer, claimed] = await Promise.all([supersede(), ground.claim(node)]);
      expect(answer.outcome).toBe('superseded');
      expect(await statusOf(answer.id)).toBe('pending');
      const { status, cancelled, expires_at } = await ground.job(id);
      const marked = (cancelled ?? expires_at) !== null;
      expect([status, marked]).toEqual(claimed.length === 1 ? ['running', true] : ['cancelled', false]);
    }
  });

  test('a settlement that waits for it: there is no deadlock, and a retry does not start again', async () => {
    const lease = await ground.running(node, { unique_key: 'u' });
    await third.sql('begin');
    await third.sql('select from pgqueue.queue where id = $1 for update', [lease.id]);
    const superseding = await ground.waiting(first, inSql());
    const settling = await ground.waiting(
      second,
      `select verdict from pgqueue.settle(array['${lease.id}']::uuid[], array['${lease.token}']::uuid[], '{retry}', '{0}', '{"{}"}')`,
    );
    await third.sql('commit');
    expect(await superseding.answer).toMatchObject([{ outcome: 'superseded' }]);
    expect(await settling.answer).toEqual([{ verdict: 'retry' }]);
    await ground.sql('update pgqueue.queue set run_after = null where id = $1', [lease.id]);
    expect(await ground.dispatch([lease.id])).toEqual(new Set());
    expect(await expire(ground.database, ground.leader(), 10)).toBe(1);
    expect(await statusOf(lease.id)).toBe('expired');
  });

  test('another that supersedes the same key, 50 times: one job has it', async () => {
    for (let round = 0; round < 50; round += 1) {
      // the older one is pending, ready or running by turns
      if (round % 3 > 0) await dispatchAll();
      if (round % 3 > 1) await ground.claim(node);
      const answers = await Promise.all([supersede(round), supersede(round)]);
      const outcomes = answers.map(({ outcome }) => outcome).sort();
      expect(outcomes).toEqual(round === 0 ? ['enqueued', 'superseded'] : ['superseded', 'superseded']);
      const left = (await jobs()).filter(({ status }) => status !== 'cancelled');
      const runs = left.filter(({ status }) => status === 'running');
      expect(runs).toHaveLength(Math.floor((round + 1) / 3));
      expect(runs.filter((job) => !job['told'] || job['unique_key'] !== null)).toEqual([]);
      const survivors = left.filter(({ status }) => status !== 'running');
      expect(survivors).toMatchObject([{ status: 'pending', unique_key: 'u' }]);
      expect(answers.map(({ id }) => id)).toContain(survivors[0]?.['id']);
    }
  });

  test('settlements, claims and other producers, over the same keys in any order: no deadlock', async () => {
    const keys = Array.from({ length: 12 }, (_, n) => `u${n}`);
    const settled = { count: 0 };
    const enqueuing = async (turn: number): Promise<void> => {
      const turned = [...keys.slice(turn), ...keys.slice(0, turn)];
      const ordered = turn % 2 === 0 ? turned : turned.toReversed();
      // longer where a busy machine has settled nothing yet
      for (let n = 0; n < 5 || (settled.count === 0 && n < 500); n += 1)
        await producer.enqueueMany(ordered.map((key) => hello.job({ n }, unique(key))));
    };
    const enqueues = new AbortController();
    const dispatching = async (): Promise<void> => {
      while (!enqueues.signal.aborted) await dispatchAll();
    };
    const working = async (): Promise<void> => {
      while (!enqueues.signal.aborted) {
        const claimed = await ground.claim(node);
        const settlements = claimed.map((lease, n) =>
          settlement(lease, n % 3 === 0 ? 'retry' : 'done', { delayMs: 0, data: { message: 'no' } }),
        );
        settled.count += (await settle(ground.database, settlements)).size;
      }
    };
    const work = Promise.all([dispatching(), working(), working()]);
    await Promise.all(Array.from({ length: 8 }, (_, turn) => enqueuing(turn)));
    enqueues.abort();
    await work;
    expect(settled.count).toBeGreaterThan(0);
    const held = await ground.sql('select unique_key from pgqueue.queue where unique_key is not null');
    expect(new Set(held.map((row) => row['unique_key'])).size).toBe(held.length);
  });
});

describe('in a transaction', () => {
  const everything = async () =>
    Promise.all(
      ['queue', 'work_queue', 'history'].map((table) =>
        ground.sql(`select * from pgqueue.${table} order by 1`),
      ),
    );

  test('that rolls back, nothing has changed: waiting, ready, running, in a batch', async () => {
    await waiting();
    await ground.dispatch([await waiting({ unique_key: 'ready' })]);
    await ground.claim(node);
    await ground.dispatch([await waiting({ unique_key: 'ready again' })]);
    await batches.dispatch([[await waiting({ unique_key: 'batch' }), await ground.insert()]]);
    const before = await everything();
    const client = await ground.database.pool.connect();
    try {
      await client.query('begin');
      const keys = ['u', 'ready', 'ready again', 'batch'];
      const answers = await producer
        .with(client)
        .enqueueMany(keys.map((key) => hello.job({ n: 2 }, unique(key))));
      expect(answers.map(({ outcome }) => outcome)).toEqual(keys.map(() => 'superseded'));
      await client.query('rollback');
    } finally {
      client.release();
    }
    expect(await everything()).toEqual(before);
  });
});

describe('enqueued again', () => {
  test('with the id of a job that waits, runs or has ended, it supersedes nothing', async () => {
    const { id } = await supersede(1);
    const repeat = async (): Promise<void> => {
      expect(await first.sql(inSql(id, true))).toEqual([{ job_id: id, outcome: 'repeated' }]);
    };
    await repeat();
    await ground.dispatch([id]);
    await ground.claim(node);
    await repeat();
    const newer = await supersede(2);
    await repeat();
    await cancel(ground.database, [id]);
    await ground.sql('select pgqueue.reset_node($1)', [node.id]);
    expect(await statusOf(id)).toBe('cancelled');
    await repeat();
    expect(await statusOf(newer.id)).toBe('pending');
  });

  test('while its own job is settled, it leaves the job that has the key now alone', async () => {
    const lease = await ground.running(node, { unique_key: 'u' });
    const newer = await supersede(3);
    await first.sql('begin');
    await first.sql(
      `select from pgqueue.settle(array['${lease.id}']::uuid[], array['${lease.token}']::uuid[], '{done}', '{null}', '{null}')`,
    );
    const { answer } = await ground.waiting(second, inSql(lease.id, true));
    await first.sql('commit');
    expect(await answer).toEqual([{ job_id: lease.id, outcome: 'repeated' }]);
    expect(await statusOf(newer.id)).toBe('pending');
  });
});
