import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { defineTask, implement } from '@pgqueue/core';
import type { Lease } from '@pgqueue/postgres/internal';
import { claim, registerNode, release } from '@pgqueue/postgres/internal';
import type { Scheduler } from '@pgqueue/scheduler';
import { createScheduler } from '@pgqueue/scheduler';
import type { Worker } from '@pgqueue/worker';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';
import { pin } from './pinned-support.ts';

/**
 * Ticks and claims begin where the last ones ended. A job can appear before that place: by a late commit or
 * by a released lease. It is found within a second nevertheless, without hints, while its key is busy and no
 * dead row can be removed. The bound of 15 s is below the 30 s after which a node looks at all work items
 * anyway.
 */
const foundMs = 15_000;
/** Multiple of the longest time of a job of the crowd that is added to the bound: for busy machines. */
const patience = 4;
const waiting = 400;
/** Number of jobs of the crowd that run before a job appears behind them. */
const passing = 1_500;

const crowd = defineTask({ name: 'crowd', payload: z.object({ at: z.number() }) });
const late = defineTask({ name: 'late', payload: z.object({ name: z.string() }) });
const began = new Map<string, number>();
let ran = 0;
let longest = 0;

const own = useDatabase();
const { database } = own;
let scheduler: Scheduler;
let worker: Worker;
let lease: Lease;
let holder: Awaited<ReturnType<typeof pin>>;
const stopping = new AbortController();
let flow: Promise<void>;

beforeAll(async () => {
  holder = await pin(own.url, 'reads');
  scheduler = createScheduler({ connectionString: own.url, listen: false });
  worker = createWorker({
    connectionString: own.url,
    concurrency: 20,
    listen: false,
    tasks: [
      implement(crowd, ({ at }) => {
        ran += 1;
        longest = Math.max(longest, performance.now() - at);
      }),
      implement(late, ({ name }) => void began.set(name, performance.now())),
    ],
  });
  await scheduler.start();
  lease = await held('released');
  await worker.start();
  flow = feed();
});
afterAll(async () => {
  stopping.abort();
  await flow;
  await Promise.all([scheduler.stop(), worker.stop()]);
  await holder.end();
});

/** Keeps some jobs waiting, all in one key. */
async function feed(): Promise<void> {
  for (let fed = 0; !stopping.signal.aborted;) {
    if (fed - ran < waiting) {
      await database.query(
        `insert into pgqueue.queue (task, payload) select 'crowd', jsonb_build_object('at', $1::float8) from generate_series(1, 100)`,
        [performance.now()],
      );
      fed += 100;
    }
    await delay(2);
  }
}

async function passBy(): Promise<void> {
  const from = ran;
  await until(`${passing} others to run`, () => ran >= from + passing);
}

async function expectFound(name: string, sinceMs: number): Promise<void> {
  longest = 0;
  await until(`${name} to begin`, () => began.has(name));
  expect((began.get(name) ?? Infinity) - sinceMs).toBeLessThan(foundMs + patience * longest);
}

test('a job that is committed late, when later ones of its key have gone', async () => {
  const client = new pg.Client({ connectionString: own.url });
  await client.connect();
  try {
    await client.query('begin');
    await client.query(`insert into pgqueue.queue (task, payload) values ('late', '{"name": "committed"}')`);
    await passBy();
    expect(began.has('committed')).toBe(false);
    const sinceMs = performance.now();
    await client.query('commit');
    await expectFound('committed', sinceMs);
  } finally {
    await client.end();
  }
});

test('a work item that is released, when later ones have been claimed', async () => {
  await passBy();
  expect(began.has('released')).toBe(false);
  const sinceMs = performance.now();
  expect((await release(database, [lease])).size).toBe(1);
  await expectFound('released', sinceMs);
});

/** Enqueues a job that another node claims before the worker starts. */
async function held(name: string): Promise<Lease> {
  const [node, incarnation] = ['other', randomUUID()];
  await registerNode(database, {
    node,
    incarnation,
    tasks: { late: { min: 1, max: 1, timeoutMs: null } },
    slots: 1,
    pool: 'default',
    heartbeatMs: 30_000,
    lostAfterMs: 3_600_000,
    software: 'test',
    seen: null,
  });
  await database.query(
    `insert into pgqueue.queue (task, payload) values ('late', jsonb_build_object('name', $1::text))`,
    [name],
  );
  return until(
    'a lease',
    async () => (await claim(database, { node, incarnation, max: 1, token: randomUUID() }))[0],
  );
}
