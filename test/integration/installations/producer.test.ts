import { defineTask, flow, installationOf, signal } from '@pgqueue/core';
import { setRoute } from '@pgqueue/postgres/internal';
import type { FlowHandle } from '@pgqueue/producer';
import type { RouterProducer } from '@pgqueue/router';
import { createRouter, homeOf } from '@pgqueue/router';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { listed } from '../../support/isolated/listed.ts';
import { nth, useSeveral, waitingIn } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const nowhere = 'postgres://postgres@127.0.0.1:1/nowhere';
/** Keys by the number of their home among 1, 2 and 3. */
const keysOf = (home: number): readonly string[] =>
  Array.from({ length: 60 }, (_, n) => `k${n}`).filter((key) => homeOf(key, [1, 2, 3]) === home);
const [first = '', second = '', third = ''] = [1, 2, 3].map((home) => keysOf(home)[0] ?? '');

describe('three installations', () => {
  const { several, router } = useSeveral(3);
  const producer = (): RouterProducer => router.producer;

  test('a job goes to the home of its key, and its id says so', async () => {
    for (const [key, number] of [
      [first, 1],
      [second, 2],
      [third, 3],
    ] as const) {
      expect(router.homeOf(key).number).toBe(number);
      const { id, outcome } = await producer().enqueue(task, { n: 1 }, { key });
      expect([installationOf(id), outcome]).toEqual([number, 'enqueued']);
    }
    await producer().enqueueByName('other', {}, { key: second });
    expect(await waitingIn(several)).toEqual([1, 2, 1]);
  });

  test('a batch is split by home, and answered in its order', async () => {
    const keys = Array.from({ length: 90 }, (_, n) => `k${n % 60}`);
    const enqueued = await producer().enqueueMany(keys.map((key, n) => task.job({ n }, { key })));
    expect(enqueued.map(({ id }) => installationOf(id))).toEqual(keys.map((key) => homeOf(key, [1, 2, 3])));
    for (const [index, database] of several.databases.entries()) {
      const rows = await database.query<{ n: number }>(
        `select (payload ->> 'n')::integer as n from pgqueue.queue order by seq`,
        [],
      );
      const own = keys.flatMap((key, n) => (homeOf(key, [1, 2, 3]) === index + 1 ? [n] : []));
      expect(rows.map(({ n }) => n)).toEqual(own);
    }
  });

  test('nothing of a batch with an invalid job is enqueued, and the job is named by its place', async () => {
    const jobs = [first, second, third].map((key) => task.job({ n: 1 }, { key }));
    const bad = task.job({ n: 'x' } as never, { key: third });
    await expect(producer().enqueueMany([...jobs, bad])).rejects.toMatchObject({
      code: 'invalid_job',
      data: { index: 3 },
    });
    expect(await waitingIn(several)).toEqual([0, 0, 0]);
  });

  test('jobs without a key spread; those with a unique key or an id of their own stay one', async () => {
    await producer().enqueueMany(Array.from({ length: 30 }, (_, n) => task.job({ n })));
    expect(await waitingIn(several)).toEqual([10, 10, 10]);
    const id = '0198a3c2-0000-7000-8000-000000000001';
    for (let n = 0; n < 4; n += 1) {
      await producer().enqueue(task, { n }, { uniqueKey: 'only' });
      await producer().enqueue(task, { n }, { id });
    }
    expect((await waitingIn(several)).reduce((sum, count) => sum + count, 0)).toBe(32);
  });

  test('one id is one job in a batch, too, wherever its keys have their homes', async () => {
    const id = '0198a3c2-0000-7000-8000-00000000000a';
    const batch = [
      task.job({ n: 1 }, { id: id.toUpperCase(), key: first }),
      task.job({ n: 2 }, { id, key: second }),
      task.job({ n: 3 }, { key: third }),
      task.job({ n: 4 }, { id, key: first }),
    ];
    const enqueued = await producer().enqueueMany(batch);
    expect(enqueued.map(({ outcome }) => outcome)).toEqual(['enqueued', 'repeated', 'enqueued', 'repeated']);
    expect(new Set([0, 1, 3].map((n) => enqueued[n]?.id))).toEqual(new Set([id]));
    expect(await waitingIn(several)).toEqual([1, 0, 1]);
    const again = await producer().enqueueMany([nth(batch, 1), nth(batch, 0)]);
    expect(again).toEqual([0, 1].map(() => ({ id, outcome: 'repeated' })));
    const bad = task.job({ n: 'x' } as never, { id, key: first });
    await expect(producer().enqueueMany([nth(batch, 0), bad])).rejects.toMatchObject({
      code: 'invalid_job',
      data: { index: 1 },
    });
    expect(await waitingIn(several)).toEqual([1, 0, 1]);
  });

  test('a flow starts in the home of its key with all its jobs, and is signalled and awaited by its id', async () => {
    const jobs = [first, second, third].map((key) => task.job({ n: 1 }, { key }));
    const run = await producer().start(flow('f').step('a', jobs).step('go', signal(z.null())), {
      key: second,
    });
    expect(installationOf(run.id)).toBe(2);
    expect(await waitingIn(several)).toEqual([0, 3, 0]);
    expect(await producer().signal(run.id, 'go', null)).toBe('signalled');
    const both: readonly FlowHandle[] = [run, producer().flow(run.id)];
    for (const found of both) {
      await expect(found.ended({ timeout: 0 })).rejects.toMatchObject({ code: 'result_timeout' });
      const request = new AbortController();
      const left = found.ended({ timeout: '1h', signal: request.signal }).catch((error: unknown) => error);
      request.abort('gone');
      expect(await left).toBe('gone');
      expect(await listed(found.results('go'))).toEqual([{ job: null, outcome: 'done', result: null }]);
      await expect(listed(found.results('gone'))).rejects.toMatchObject({ code: 'not_found' });
    }
    expect(() => producer().flow('x')).toThrow('producer.flow takes the id of a flow, a UUID, not "x"');
    await expect(producer().signal('0198a3c2-0000-7000-8000-000000000009', 'go', null)).rejects.toMatchObject(
      {
        code: 'not_found',
      },
    );
  });

  test('follows a key that has moved, by what the installation answers, without having read the routes', async () => {
    const [one, two] = several.databases;
    if (one === undefined || two === undefined) throw new Error('two');
    const seldom = createRouter({ installations: several.installations, pollMs: 60_000 });
    const { producer } = seldom;
    try {
      await producer.enqueue(task, { n: 1 }, { key: first });
      const route = { key: first, installation: 2, version: 1, movingFrom: null };
      await setRoute(two, route);
      await setRoute(one, route);
      const { id } = await producer.enqueue(task, { n: 2 }, { key: first });
      // made for its old home; a look-up asks that first, and then the others
      expect(installationOf(id)).toBe(1);
      expect(seldom.homeOf(first).name).toBe('two');
      const mixed = await producer.enqueueMany(
        [first, second, third].map((key) => task.job({ n: 3 }, { key })),
      );
      expect(mixed.map(({ outcome }) => outcome)).toEqual(['enqueued', 'enqueued', 'enqueued']);
      expect(await waitingIn(several)).toEqual([1, 3, 1]);
      await expect(producer.result(id, { timeout: 0 })).rejects.toMatchObject({
        code: 'result_timeout',
        data: { status: 'pending' },
      });
      const request = new AbortController();
      const left = producer.result(id, { timeout: '1h', signal: request.signal });
      setImmediate(() => request.abort('gone'));
      await expect(left).rejects.toBe('gone');
      const back = { ...route, installation: 1, version: 2 };
      await setRoute(one, back);
      await setRoute(two, back);
      await producer.enqueueMany([task.job({ n: 4 }, { key: first }), task.job({ n: 5 }, { key: second })]);
      expect(await waitingIn(several)).toEqual([2, 4, 1]);
    } finally {
      await seldom.close();
    }
  });

  test('reads routes by itself', async () => {
    const { databases } = several;
    await router.producer.enqueue(task, { n: 1 }, { key: second });
    const route = { key: first, installation: 3, version: 1, movingFrom: 1 };
    if (databases[2] !== undefined) await setRoute(databases[2], route);
    await expect.poll(() => router.homeOf(first).number).toBe(3);
  });

  test('an enqueue in a transaction goes to the installation that is named', async () => {
    const { id } = await nth(several.databases, 1).transaction((client) =>
      router.at('two').with(client).enqueue(task, { n: 1 }, { key: first }),
    );
    expect(installationOf(id)).toBe(2);
    expect(await waitingIn(several)).toEqual([0, 1, 0]);
    expect(() => router.at('five')).toThrow(/there are one, two, three/);
  });

  test('one that is down fails the enqueues of its keys, by its name, and no others', async () => {
    const installations = several.installations.map((one) =>
      one.number === 2 ? { ...one, connectionString: nowhere } : one,
    );
    const other = createRouter({ installations });
    try {
      await expect(other.producer.enqueue(task, { n: 1 }, { key: second })).rejects.toMatchObject({
        code: 'installation',
        message: expect.stringContaining('installation two (number 2): ') as string,
        data: { installation: 'two', number: 2 },
      });
      await other.producer.enqueue(task, { n: 1 }, { key: first });
      await expect(
        other.producer.enqueueMany([first, second, third, second].map((key, n) => task.job({ n }, { key }))),
      ).rejects.toMatchObject({
        code: 'installation',
        message: expect.stringContaining('2 of 4 jobs were enqueued, 2 not: installation two') as string,
        data: {
          failed: [{ installation: 'two', jobs: [1, 3] }],
          enqueued: [{ outcome: 'enqueued' }, null, { outcome: 'enqueued' }, null],
        },
      });
      const id = '0198a3c2-0000-7000-8000-00000000000b';
      const twins = [second, first].map((key) => task.job({ n: 1 }, { id, key }));
      await expect(
        other.producer.enqueueMany([...twins, task.job({ n: 1 }, { key: third })]),
      ).rejects.toMatchObject({ data: { failed: [{ installation: 'two', jobs: [0, 1] }] } });
      await expect(other.check()).rejects.toMatchObject({ data: { installation: 'two' } });
    } finally {
      await other.close();
    }
    expect(await waitingIn(several)).toEqual([2, 0, 2]);
  });

  test('jobs without a key go to the others once one is known to be down, and to it again when it answers', async () => {
    const { hostname, port, href } = new URL(nth(several.installations, 1).connectionString);
    let down = true;
    const relay = createServer((client) => {
      const server = connect(Number(port === '' ? 5432 : port), hostname);
      for (const socket of [client, server]) {
        socket.on('error', () => {});
        socket.on('close', () => {
          client.destroy();
          server.destroy();
        });
      }
      if (down) client.destroy();
      client.pipe(server).pipe(client);
    });
    await once(relay.listen(0, '127.0.0.1'), 'listening');
    const two = new URL(href);
    two.hostname = '127.0.0.1';
    two.port = `${(relay.address() as AddressInfo).port}`;
    const installations = several.installations.map((one) =>
      one.number === 2 ? { ...one, connectionString: two.href } : one,
    );
    const other = createRouter({ installations, pollMs: 100 });
    const enqueueOne = async (): Promise<number | undefined> =>
      installationOf((await other.producer.enqueue(task, { n: 1 })).id);
    try {
      await expect(other.producer.enqueue(task, { n: 1 }, { key: second })).rejects.toThrow(
        'installation two',
      );
      for (let n = 0; n < 6; n += 1) expect([1, 3]).toContain(await enqueueOne());
      await other.producer.enqueueMany(Array.from({ length: 6 }, (_, n) => task.job({ n })));
      expect(await waitingIn(several)).toEqual([6, 0, 6]);
      down = false;
      await expect.poll(enqueueOne).toBe(2);
    } finally {
      await other.close();
      relay.close();
    }
  });

  test.each([
    [
      'numbers that are swapped',
      { number: 2, name: 'two' },
      { number: 1, name: 'one' },
      /says number [12] \(/,
    ],
    ['another name', { number: 1, name: 'uno' }, { number: 2, name: 'two' }, /says the name "one"/],
  ])('%s are refused before the first write', async (_, a, b, told) => {
    const other = createRouter({
      installations: [
        { ...nth(several.installations, 0), ...a },
        { ...nth(several.installations, 1), ...b },
      ],
    });
    try {
      const refused = { code: 'configuration', message: expect.stringMatching(told) as string };
      await expect(other.check()).rejects.toMatchObject(refused);
      await expect(
        Promise.all(
          ['a', 'b', 'c', 'd', 'e', 'f'].map((key) => other.producer.enqueue(task, { n: 1 }, { key })),
        ),
      ).rejects.toMatchObject({ code: 'configuration' });
    } finally {
      await other.close();
    }
  });

  test('a router that was closed says so', async () => {
    await router.close();
    await expect(producer().enqueue(task, { n: 1 })).rejects.toMatchObject({ code: 'closed' });
  });
});

describe('one installation', () => {
  const { several } = useSeveral(1);

  test('needs no number, and checks no homes', async () => {
    await nth(several.databases, 0).query('delete from pgqueue.installation', []);
    const router = createRouter({ installations: several.installations });
    try {
      await router.check();
      await router.producer.enqueueMany([first, second].map((key) => task.job({ n: 1 }, { key })));
      expect(await waitingIn(several)).toEqual([2]);
    } finally {
      await router.close();
    }
  });

  test('a second one without a number is refused', async () => {
    await nth(several.databases, 0).query('delete from pgqueue.installation', []);
    const two = { number: 2, name: 'two', connectionString: nowhere };
    const router = createRouter({ installations: [nth(several.installations, 0), two] });
    try {
      await expect(router.producer.enqueue(task, { n: 1 }, { key: keyOfOne })).rejects.toMatchObject({
        code: 'configuration',
        message: expect.stringContaining(
          'run "pgqueue installations init --number 1 --name one" there',
        ) as string,
      });
    } finally {
      await router.close();
    }
  });
});

const keyOfOne = keysOf(1).find((key) => homeOf(key, [1, 2]) === 1) ?? '';
