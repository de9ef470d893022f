import { setTimeout as delay } from 'node:timers/promises';
import { defineTask } from '@pgqueue/core';
import { channelName, createHints, startListener } from '@pgqueue/postgres/internal';
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

const own = useDatabase();
const { database } = own;
let listener: Listener;
let heard: string[];

beforeEach(async () => {
  heard = [];
  listener = startListener({
    connectionString: own.url,
    channels: [channel, 'end'],
    onHint: (name) => heard.push(name),
    onError: () => {},
  });
  await until('the listener to listen', () => heard.length === 2);
  heard.length = 0;
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
  const beganAt = performance.now();
  await withProducer({}, async (producer) => {
    await producer.enqueue(hello, { n: 1 });
    await until('a hint', () => heard.length > 0);
    await Promise.all(Array.from({ length: 1_000 }, (_, n) => producer.enqueue(hello, { n })));
  });
  // or one for each millisecond that it took: so soon one may follow another that an insert has carried
  const elapsedMs = performance.now() - beganAt;
  expect(await hints()).toBeLessThan(Math.max(500, elapsedMs));
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
    expect(JSON.parse(hint)).toMatchObject({ 4: 'default', 5: 'acme', 6: 'hello', 9: { size: 7 } });
    expect(hint).not.toContain('4711471147114711');
  } finally {
    stranger.release(true);
    await database.query('drop role passer_by', []);
  }
});
