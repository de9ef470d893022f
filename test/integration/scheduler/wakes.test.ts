import { defineTask, implement } from '@pgqueue/core';
import type { Listener } from '@pgqueue/postgres/internal';
import { channelName, startListener } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createWorker } from '@pgqueue/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openBench, until } from './support.ts';

const task = defineTask({ name: 't', payload: z.object({ n: z.number() }) });
const bench = opened(openBench);
const work = channelName('pgqueue', 'work');
let listener: Listener;
let heard: string[];

beforeEach(async () => {
  heard = [];
  let listens = false;
  listener = startListener({
    connectionString: bench.test.url,
    channels: [work],
    onHint: (_channel, payload) => {
      if (listens) heard.push(payload);
      listens = true;
    },
    onError: () => {},
  });
  await until('it to listen', () => listens);
});
afterEach(async () => {
  await listener.stop();
  await bench.clear();
});

const named = (): readonly string[][] =>
  heard.filter((payload) => payload.startsWith('[')).map((payload) => JSON.parse(payload) as string[]);

test('a job wakes two nodes of many; if they do not claim, all are woken, and the next job wakes others', async () => {
  for (const id of ['n1', 'n2', 'n3', 'n4', 'n5']) await bench.node({ id });
  await bench.scheduler();
  await bench.enqueue({ count: 1 });
  await bench.hint();
  await until('all to be woken', () => heard.includes(''));
  const [pool, ...deaf] = named()[0] ?? [];
  expect([pool, deaf.length, named().length]).toEqual(['default', 2, 1]);

  await bench.enqueue({ count: 1 });
  await bench.hint();
  await until('others to be woken', () => named().length === 2);
  const [, ...others] = named()[1] ?? [];
  expect([...deaf, ...others]).toHaveLength(4);
  expect(new Set([...deaf, ...others])).toHaveProperty('size', 4);
});

test('the nodes that are woken run the jobs', async () => {
  let ran = 0;
  const common = { connectionString: bench.test.url };
  const handler = implement(task, () => void (ran += 1));
  const workers = Array.from({ length: 4 }, (_, n) =>
    createWorker({ ...common, node: `w${n}`, tasks: [handler], heartbeatThread: false }),
  );
  const producer = createProducer(common);
  try {
    for (const worker of workers) await worker.start();
    await bench.scheduler();
    for (let n = 1; n <= 40; n += 1) {
      await producer.enqueue(task, { n });
      await until(`job ${n}`, () => ran === n);
    }
    // if one of them took its time, all are woken for a while
    expect(named()[0]).toEqual(['default', expect.stringMatching(/^w\d$/), expect.stringMatching(/^w\d$/)]);
  } finally {
    await producer.close();
    await Promise.all(workers.map((worker) => worker.stop()));
  }
});
