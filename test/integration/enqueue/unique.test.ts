import { randomUUID } from 'node:crypto';
import { defineTask } from '@pgqueue/core';
import type { Unique } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';

const hello = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });

const { database, item, reset, run, sql } = useDatabase({ connectionsMax: 20 });

const producer = opened(() => createProducer({ pool: database.pool, notify: false }));
beforeEach(reset);

type Mode = NonNullable<Unique['onConflict']>;

const unique = (onConflict: Mode, key = 'u'): { readonly uniqueKey: Unique } => ({
  uniqueKey: { key, onConflict },
});

const jobs = (): Promise<readonly { id: string; status: string; n: number; unique_key: string | null }[]> =>
  sql(
    `select j.id, j.status, (q.payload ->> 'n')::integer as n, q.unique_key
     from pgqueue.job j join pgqueue.queue q using (id) order by q.seq`,
  );

/** One job under the unique key `u` that stands where asked for. */
async function first(state: 'pending' | 'delayed' | 'ready' | 'running'): Promise<string> {
  const delay = state === 'delayed' ? { delay: '1h' as const } : {};
  const { id } = await producer.enqueue(hello, { n: 1 }, { uniqueKey: 'u', priority: 5, ...delay });
  if (state === 'ready') await item(id);
  if (state === 'running') await run('node-1', [id]);
  expect(await jobs()).toEqual([{ id, status: state, n: 1, unique_key: 'u' }]);
  return id;
}

describe('against one that waits or is ready', () => {
  test.each(['pending', 'delayed', 'ready'] as const)('keep leaves it as it is: %s', async (state) => {
    const id = await first(state);
    const answer = await producer.enqueue(hello, { n: 2 }, { ...unique('keep'), delay: '2h' });
    expect(answer).toEqual({ id, outcome: 'kept' });
    expect(await jobs()).toEqual([{ id, status: state, n: 1, unique_key: 'u' }]);
  });

  test.each([
    ['pending', 'pending'],
    ['delayed', 'delayed'],
    ['ready', 'pending'],
  ] as const)('replace takes the new payload at the old time: %s', async (state, after) => {
    const id = await first(state);
    const before = await sql('select seq, run_after from pgqueue.queue');
    const answer = await producer.enqueue(
      hello,
      { n: 2 },
      { ...unique('replace'), delay: '2h', priority: 1, attributes: { a: 1 } },
    );
    expect(answer).toEqual({ id, outcome: 'replaced' });
    expect(await jobs()).toEqual([{ id, status: after, n: 2, unique_key: 'u' }]);
    expect(await sql('select seq, run_after from pgqueue.queue')).toEqual(before);
    expect(await sql('select priority, attributes from pgqueue.queue')).toEqual([
      { priority: 1, attributes: { a: 1 } },
    ]);
  });

  test.each(['replace', 'debounce'] as const)(
    '%s by a new payload begins anew; by the same one it goes on',
    async (mode) => {
      const id = await first('pending');
      await sql(
        `update pgqueue.queue set tries = 19, crashes = 2, errors = '[{"message": "no"}]', checkpoint = '1'`,
      );
      const state = 'select tries, crashes, errors, checkpoint from pgqueue.queue';
      const before = await sql(state);
      await producer.enqueue(hello, { n: 1 }, unique(mode));
      expect(await sql(state)).toEqual(before);
      expect(await producer.enqueue(hello, { n: 2 }, unique(mode))).toMatchObject({ id });
      expect(await sql(state)).toEqual([{ tries: 0, crashes: 0, errors: null, checkpoint: null }]);
    },
  );

  test.each(['pending', 'delayed', 'ready'] as const)('debounce pushes its time back: %s', async (state) => {
    const id = await first(state);
    const minutes = async (): Promise<number> =>
      (
        await sql('select round(extract(epoch from run_after - now()) / 60)::integer as m from pgqueue.queue')
      )[0].m;
    const answer = await producer.enqueue(hello, { n: 2 }, { ...unique('debounce'), delay: '2h' });
    expect(answer).toEqual({ id, outcome: 'debounced' });
    expect(await minutes()).toBe(120);
    await producer.enqueue(hello, { n: 3 }, { ...unique('debounce'), delay: '3h' });
    expect(await minutes()).toBe(180);
    expect(await jobs()).toEqual([{ id, status: 'delayed', n: 3, unique_key: 'u' }]);
  });
});

describe('debounce with maxWait', () => {
  const debounce = (delay: number, maxWait: Unique['maxWait']) =>
    producer.enqueue(
      hello,
      { n: delay },
      {
        uniqueKey: { key: 'u', onConflict: 'debounce', ...(maxWait === undefined ? {} : { maxWait }) },
        delay,
      },
    );
  const hour = 3_600_000;
  /** Moves the job's first enqueue back, and returns the hours from then until it is due; null: it is due. */
  const dueAfter = async (hours: number): Promise<number | null> => {
    const [row] = await sql(
      'select round(extract(epoch from run_after - created) / 3600)::integer as due from pgqueue.queue',
    );
    await sql(`update pgqueue.queue set created = created - $1 * interval '1 hour'`, [hours]);
    return row.due;
  };

  test('pushes it back, but not beyond maxWait after its first enqueue; then it is due at once', async () => {
    expect((await debounce(2 * hour, '5h')).outcome).toBe('enqueued');
    expect(await dueAfter(1)).toBe(2);
    expect((await debounce(3 * hour, '5h')).outcome).toBe('debounced');
    expect(await dueAfter(2)).toBe(4);
    await debounce(3 * hour, '5h');
    expect(await dueAfter(1)).toBe(5);
    await debounce(hour / 4, '5h');
    expect(await dueAfter(2)).toBe(4);
    await debounce(3 * hour, '5h');
    expect(await dueAfter(0)).toBeNull();
    expect(await jobs()).toMatchObject([{ status: 'pending', n: 3 * hour, unique_key: 'u' }]);
  });

  test('limits the first enqueue, too; a later one without it has no limit', async () => {
    await debounce(9 * hour, '5h');
    expect(await dueAfter(0)).toBe(5);
    await debounce(9 * hour, undefined);
    expect(await dueAfter(0)).toBe(9);
    await debounce(0, '5h');
    expect(await dueAfter(0)).toBeNull();
  });

  test('behind a job that runs, the time begins anew', async () => {
    await debounce(0, '5h');
    await sql(`update pgqueue.queue set created = created - interval '9 hours'`);
    await run('node-1', [(await jobs())[0]?.id ?? '']);
    const { outcome } = await debounce(hour, '5h');
    expect(outcome).toBe('enqueued');
    expect((await jobs()).map(({ status }) => status)).toEqual(['running', 'delayed']);
  });

  test.each([
    ['0', 'debounce'],
    ['-1', 'debounce'],
    ['"NaN"', 'debounce'],
    ['"infinity"', 'debounce'],
    ['1e300', 'debounce'],
    ['5', 'replace'],
    ['5', 'keep'],
  ])('%s is refused with %s', async (wait, mode) => {
    const job = `{"n": 0, "task": "hello", "unique_key": "u", "mode": "${mode}", "delay_ms": 5, "max_wait_ms": ${wait}}`;
    await expect(sql(`select pgqueue.enqueue_unique('[${job}]')`)).rejects.toMatchObject({ code: '22023' });
  });
});

test('a payload of null stays null: under a unique key, as a replacement, with an id; none is {}', async () => {
  const options = [unique('keep'), unique('replace', 'v'), unique('replace', 'v'), { id: randomUUID() }];
  for (const one of options) await producer.enqueueByName('hello', null, one);
  await sql(
    `select pgqueue.enqueue_unique('[{"n": 0, "task": "hello"}, {"n": 1, "task": "hello", "payload": 1}]')`,
  );
  expect(await sql('select payload::text from pgqueue.queue order by seq')).toEqual(
    ['null', 'null', 'null', '{}', '1'].map((payload) => ({ payload })),
  );
});

describe('against one that runs', () => {
  test('keep leaves it', async () => {
    const id = await first('running');
    expect(await producer.enqueue(hello, { n: 2 }, unique('keep'))).toEqual({ id, outcome: 'kept' });
    expect(await jobs()).toHaveLength(1);
  });

  test.each(['replace', 'debounce'] as const)(
    '%s detaches it, and a new one waits behind it',
    async (mode) => {
      const id = await first('running');
      const answer = await producer.enqueue(hello, { n: 2 }, unique(mode));
      expect(answer.outcome).toBe('enqueued');
      expect(await jobs()).toEqual([
        { id, status: 'running', n: 1, unique_key: null },
        { id: answer.id, status: 'pending', n: 2, unique_key: 'u' },
      ]);
      const again = await producer.enqueue(hello, { n: 3 }, unique(mode));
      expect(again).toEqual({ id: answer.id, outcome: mode === 'replace' ? 'replaced' : 'debounced' });
      expect(await jobs()).toHaveLength(2);
    },
  );

  test('an item that a claim has locked counts as running', async () => {
    const id = await first('ready');
    const claiming = await database.pool.connect();
    try {
      await claiming.query('begin');
      await claiming.query('select from pgqueue.work_queue where id = $1 for update', [id]);
      const answer = await producer.enqueue(hello, { n: 2 }, unique('replace'));
      expect(answer.outcome).toBe('enqueued');
      await claiming.query('rollback');
    } finally {
      claiming.release();
    }
    expect(await jobs()).toHaveLength(2);
  });
});

test('the key is free again when its job has ended, and each task has its own', async () => {
  const id = await first('pending');
  expect((await producer.enqueueByName('other', { n: 1 }, { uniqueKey: 'u' })).outcome).toBe('enqueued');
  await sql('select pgqueue.cancel(array[$1::uuid])', [id]);
  const answer = await producer.enqueue(hello, { n: 2 }, unique('keep'));
  expect(answer.outcome).toBe('enqueued');
  expect(answer.id).not.toBe(id);
});

describe('at once', () => {
  test.each(['keep', 'replace', 'debounce'] as const)(
    'twenty of one key leave exactly one: %s',
    async (mode) => {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          producer.enqueue(hello, { n }, { ...unique(mode), delay: '1h' }),
        ),
      );
      expect(answers.filter(({ outcome }) => outcome === 'enqueued')).toHaveLength(1);
      expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
      expect(await jobs()).toHaveLength(1);
    },
  );

  test('batches of the same keys in any order debounce without a deadlock', async () => {
    const events: string[] = [];
    const watched = createProducer({
      pool: database.pool,
      notify: false,
      observe: ({ type }) => events.push(type),
    });
    const keys = Array.from({ length: 20 }, (_, n) => `u${n}`);
    const batch = (turn: number): Promise<unknown> => {
      const turned = [...keys.slice(turn), ...keys.slice(0, turn)];
      const ordered = turn % 2 === 0 ? turned : turned.toReversed();
      return watched.enqueueMany(
        ordered.map((key) => hello.job({ n: turn }, { ...unique('debounce', key), delay: '1h' })),
      );
    };
    await Promise.all(Array.from({ length: 60 }, (_, n) => batch(n % 20)));
    await watched.close();
    expect(await jobs()).toHaveLength(20);
    expect(events.filter((type) => type === 'database.error')).toEqual([]);
  });

  test('replace while it is claimed: the new payload runs, in one job or the other', async () => {
    for (let round = 0; round < 20; round += 1) {
      await reset();
      await first('ready');
      await sql(
        `select * from pgqueue.register_node('n', '{"hello": {"min": 1, "max": 1, "timeoutMs": 60000}}', 2)`,
      );
      const [answer, claimed] = await Promise.all([
        producer.enqueue(hello, { n: 2 }, unique('replace')),
        sql(`select c.id, c.payload from pgqueue.node n, pgqueue.claim(n.id, n.incarnation, 10) c`),
      ]);
      const after = (await jobs()).map(({ n, status }) => `${n} ${status}`);
      const seen = { claimed: claimed.map(({ payload }) => payload.n), outcome: answer.outcome, after };
      expect([
        { claimed: [1], outcome: 'enqueued', after: ['1 running', '2 pending'] },
        { claimed: [], outcome: 'replaced', after: ['2 pending'] },
      ]).toContainEqual(seen);
    }
  });
});
