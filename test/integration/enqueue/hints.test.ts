import { setTimeout as delay } from 'node:timers/promises';
import { defineTask } from '@pgqueue/core';
import { toJobRow } from '@pgqueue/core/internal';
import {
  channelName,
  createHints,
  enqueueAndHint,
  hintFacts,
  readHint,
  startListener,
} from '@pgqueue/postgres/internal';
import type { Executor } from '@pgqueue/postgres';
import type { Listener } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import type { Producer, ProducerOptions } from '@pgqueue/producer';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const hello = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const channel = channelName('pgqueue', 'queue');
const idOf = (n: number): string => `01a20a81-e1c0-77bc-abac-4b5be71c52f${n}`;

const own = useDatabase();
const { database } = own;
let listener: Listener;
let heard: string[];
let payloads: string[];

beforeEach(async () => {
  [heard, payloads] = [[], []];
  listener = startListener({
    connectionString: own.url,
    channels: [channel, 'end'],
    onHint: (name, payload) => {
      heard.push(name);
      if (name === channel) payloads.push(payload);
    },
    onError: () => {},
  });
  await until('the listener to listen', () => heard.length === 2);
  heard.length = 0;
  payloads.length = 0;
});
afterEach(() => listener.stop());

async function withProducer(
  options: ProducerOptions,
  use: (producer: Producer) => Promise<unknown>,
): Promise<void> {
  const producer = createProducer({ connectionString: own.url, connectionsMax: 4, ...options });
  try {
    await use(producer);
  } finally {
    await producer.close();
  }
}

/** Resolves to the hints so far: notifications are heard in the order of their commits, and this one comes last. */
async function hints(): Promise<number> {
  await database.query(`notify "end"`, []);
  await until('the end', () => heard.includes('end'));
  return heard.filter((name) => name === channel).length;
}

test('one enqueue wakes at once; a thousand in one moment wake a few times', async () => {
  await withProducer({}, async (producer) => {
    await producer.enqueue(hello, { n: 1 });
    await until('a hint', () => heard.length > 0);
    await Promise.all(Array.from({ length: 1_000 }, (_, n) => producer.enqueue(hello, { n })));
  });
  expect(await hints()).toBeLessThan(500);
});

test('calls that follow each other each carry a hint of their job', async () => {
  const ids: string[] = [];
  await withProducer({}, async (producer) => {
    for (let n = 0; n < 20; n += 1) ids.push((await producer.enqueue(hello, { n })).id);
  });
  expect(await hints()).toBe(20);
  expect(payloads.flatMap((payload) => readHint(payload)?.map(({ id }) => id))).toEqual(ids);
});

test('four hints go one after the other; the fifth waits for its interval', async () => {
  const spaced = createHints(database, 'pgqueue', 'queue', 3_600_000);
  try {
    for (const sent of [1, 2, 3, 4]) {
      spaced.send();
      await until(`hint ${sent}`, () => heard.length === sent);
    }
    spaced.send();
    await delay(100);
    expect(await hints()).toBe(4);
  } finally {
    await spaced.stop();
  }
});

const second = defineTask({ name: 'hello', payload: z.object({}), version: 2 });
const facts = { queue: 'q', key: 'a "key"', priority: -3, attributes: { size: 7 } };

test.each([
  ['a hint of its own tells of a job', true, 1],
  ['the next hint tells of a job', false, 1],
  ['a hint of their own tells of several jobs', true, 3],
  ['the next hint tells of several jobs', false, 3],
])('%s what the database has', async (_which, notify, count) => {
  await database.query('delete from pgqueue.queue', []);
  const rows = [];
  for (let n = 0; n < count; n += 1)
    rows.push(await toJobRow(second.job({}, { ...facts, key: `a "key"\n${n}` }), () => idOf(5 - n)));
  const told = rows.map((row) => hintFacts(row) ?? '');
  const { sent, jobs } = await enqueueAndHint(database, rows, { facts: told, notify });
  expect(await hints()).toBe(notify ? 1 : 0);
  expect(sent).toBe(notify);
  const listed = readHint(notify ? (payloads[0] ?? '') : `[${String(jobs)}]`) ?? [];
  const are = await database.query(
    `select id::text, queue, key, task, payload_version as version, priority, seq::integer, attributes, xmin::text as "rowVersion",
       date_part('epoch', created) * 1000 as "createdMs" from pgqueue.queue where id::text = any ($1) order by seq`,
    [rows.map(({ id }) => id)],
  );
  expect(listed).toEqual(are);
  expect(listed.map(({ id }) => id)).toEqual(rows.map(({ id }) => id));
});

test('a hint tells of all jobs since the last, or, if they are too many or one is not known, of none', async () => {
  const spaced = createHints(database, 'pgqueue', 'queue', 1);
  const next = async (...sent: readonly (readonly string[] | undefined)[]): Promise<string | undefined> => {
    const before = payloads.length;
    await until('the last hint to be over', () => spaced.ride());
    for (const jobs of sent) spaced.send(jobs);
    spaced.rode(false, []);
    await until('the next hint', () => payloads.length > before);
    return payloads.at(-1);
  };
  try {
    expect(await next(['[1]'], ['[2]', '[3]'])).toBe('[[1],[2],[3]]');
    expect(await next(['[1]'], undefined, ['[2]'])).toBe('');
    expect(await next(Array.from({ length: 65 }, () => '[1]'))).toBe('');
    expect(await next([`["${'ü'.repeat(4_000)}"]`])).toBe('');
    expect(await next(['[4]'])).toBe('[[4]]');
    await until('the last hint to be over', () => spaced.ride());
    const room: boolean[] = [];
    for (let n = 0; n <= 16; n += 1) {
      room.push(spaced.lists(1));
      spaced.send(['[5]']);
    }
    spaced.rode(false);
    expect(room).toEqual([...Array.from({ length: 16 }, () => true), false]);
  } finally {
    await spaced.stop();
  }
});

test('jobs whose descriptions are too long for one hint are enqueued, and read', async () => {
  const attributes = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`a${n}`, 'ü'.repeat(60)]));
  await withProducer({}, async (producer) => {
    await producer.enqueueMany(Array.from({ length: 16 }, (_, n) => hello.job({ n }, { attributes })));
    await until('a hint', () => heard.length > 0);
    await Promise.all(Array.from({ length: 60 }, (_, n) => producer.enqueue(hello, { n }, { attributes })));
  });
  expect(await database.query('select from pgqueue.queue where attributes ? $1', ['a0'])).toHaveLength(76);
  expect(payloads[0]).toBe('');
});

test('after a transaction of the caller: a few, and none from inside it', async () => {
  await withProducer({}, async (producer) => {
    const texts: string[] = [];
    await database.transaction(async (client) => {
      const watched: Executor = {
        query: async (text, values) => {
          texts.push(text);
          return (await client.query(text, [...values])).rows;
        },
      };
      const enqueuer = producer.with(watched);
      for (let n = 0; n < 10; n += 1) await enqueuer.enqueue(hello, { n });
    });
    await until('three hints', () => heard.length >= 3);
    expect(texts).toHaveLength(12); // the looks at the schema's version and its number, and ten inserts
    expect(texts.join()).not.toContain('notify');
  });
  expect(await hints()).toBeLessThan(20);
});

test('one that was kept wakes nobody', async () => {
  await withProducer({ notify: false }, (producer) => producer.enqueue(hello, { n: 1 }, { uniqueKey: 'u' }));
  await withProducer({}, (producer) => producer.enqueue(hello, { n: 1 }, { uniqueKey: 'u' }));
  expect(await hints()).toBe(0);
});

test('none when switched off', async () => {
  await withProducer({ notify: false }, async (producer) => {
    await producer.enqueue(hello, { n: 1 });
    await producer.with(database.pool).enqueue(hello, { n: 1 });
  });
  expect(await hints()).toBe(0);
});

test('anyone who may connect hears what a policy may read of a new job, and never its payload', async () => {
  await database.query('create role passer_by', []);
  const stranger = await database.pool.connect();
  const told: (string | undefined)[] = [];
  stranger.on('notification', ({ payload }) => told.push(payload));
  try {
    await stranger.query('set role passer_by');
    await expect(stranger.query('select id from pgqueue.queue')).rejects.toMatchObject({ code: '42501' });
    await stranger.query(`listen "${channel}"`);
    const options = { key: 'acme', attributes: { size: 7 } };
    await withProducer({ notify: false }, (producer) =>
      producer.enqueue(hello, { n: 4711471147114711 }, options),
    );
    await withProducer({}, (producer) => producer.enqueue(hello, { n: 4711471147114711 }, options));
    await until('a hint', () => told.length > 0);
    const [hint = '', ...more] = told;
    expect(more).toEqual([]);
    expect(JSON.parse(hint)).toMatchObject([{ 4: 'default', 5: 'acme', 6: 'hello', 9: { size: 7 } }]);
    expect(hint).not.toContain('4711471147114711');
  } finally {
    stranger.release(true);
    await database.query('drop role passer_by', []);
  }
});
