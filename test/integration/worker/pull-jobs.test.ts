import type { NewJob, PgQueueEvent } from '@pgqueue/core';
import { defineTask } from '@pgqueue/core';
import { cancel, resetNode } from '@pgqueue/postgres/internal';
import type { PulledJob, Puller, PullerOptions } from '@pgqueue/worker';
import { createPuller } from '@pgqueue/worker';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import { promoteAll } from '../../support/dispatch-all.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
const pullers: Puller[] = [];
afterEach(async () => {
  await Promise.all(pullers.splice(0).map((puller) => puller.close()));
  await bench.clear();
});

const task = defineTask({ name: 'task', payload: z.object({ n: z.number() }), timeout: '1h' });

function puller(options: Partial<PullerOptions> = {}): Puller {
  const made = createPuller({
    connectionString: bench.test.url,
    tasks: ['task'],
    heartbeatMs: 100,
    lostAfterMs: 60_000,
    ...options,
  });
  pullers.push(made);
  return made;
}

async function enqueue(count: number, options: NewJob['options'] = {}): Promise<readonly string[]> {
  const jobs = Array.from({ length: count }, (_, n) => task.job({ n }, options));
  const made = await bench.producer.enqueueMany(jobs);
  await bench.dispatch();
  return made.map(({ id }) => id);
}

const first = ([job]: readonly PulledJob[]): PulledJob => {
  expect(job).toBeDefined();
  return job as PulledJob;
};
const status = async (id: string): Promise<string> => (await bench.job(id)).status;
const code = ({ signal }: PulledJob): unknown =>
  (signal.reason as { readonly code: unknown } | undefined)?.code;

describe('claim', () => {
  test('claims that overlap take no more than the slots together', async () => {
    await enqueue(6);
    const pull = puller({ slots: 2 });
    const claims = await Promise.all([1, 2, 3].map(() => pull.claim({ max: 2 })));
    expect(claims.flat()).toHaveLength(2);
    expect(pull.held).toBe(2);
  });

  test('takes up to max jobs in dispatch order, with their payloads', async () => {
    const ids = await enqueue(5);
    const pull = puller();
    const jobs = await pull.claim({ max: 3 });
    expect(jobs.map(({ id, payload }) => ({ id, payload }))).toEqual(
      ids.slice(0, 3).map((id, n) => ({ id, payload: { n } })),
    );
    expect(pull.held).toBe(3);
    expect((await pull.claim({ max: 10 })).map(({ id }) => id)).toEqual(ids.slice(3));
  });

  test.each([true, false])('waits for the first job; LISTEN: %s', async (listen) => {
    const pull = puller({ listen });
    expect(await pull.claim()).toEqual([]);
    const waiting = pull.claim({ max: 2, waitMs: 60_000 });
    const [id] = await enqueue(1);
    expect((await waiting).map((job) => job.id)).toEqual([id]);
  });

  test('gives nothing after the wait, and never more than its slots', async () => {
    const pull = puller({ slots: 2 });
    expect(await pull.claim({ waitMs: 100 })).toEqual([]);
    await enqueue(5);
    expect(await pull.claim({ max: 5 })).toHaveLength(2);
    expect(await pull.claim({ max: 5 })).toEqual([]);
  });

  test('leaves versions alone that the puller does not name', async () => {
    await enqueue(1);
    expect(await puller({ tasks: [{ name: 'task', minVersion: 2 }] }).claim({ waitMs: 50 })).toEqual([]);
    expect(await puller({ tasks: [task] }).claim()).toHaveLength(1);
  });
});

describe('what a holder can say', () => {
  test('ack: one or many are done, once', async () => {
    const ids = await enqueue(3);
    const pull = puller();
    const jobs = await pull.claim({ max: 3 });
    expect(await pull.ack(first(jobs), { ok: true })).toEqual({ accepted: [ids[0]], stale: [] });
    expect(await pull.ack(jobs)).toEqual({ accepted: ids.slice(1), stale: [ids[0]] });
    expect((await bench.job(ids[0] ?? '')).result).toEqual({ ok: true });
    expect(await Promise.all(ids.map(status))).toEqual(['done', 'done', 'done']);
    expect(pull.held).toBe(0);
  });

  test('nack: tried again after its backoff or the given delay, then dead', async () => {
    const [id = ''] = await enqueue(1, { retry: { maxTries: 2 } });
    const pull = puller();
    const failed = first(await pull.claim());
    await expect(pull.ack(failed, new Error('one'))).rejects.toThrow('nack(job, error)');
    expect(await pull.nack(failed, new Error('one'), '1h')).toBe('retry');
    const delayed = await bench.job(id);
    expect(delayed.tries).toBe(1);
    expect((delayed.runAfter?.getTime() ?? 0) - Date.now()).toBeGreaterThan(3_590_000);
    await promoteAll(bench.database);
    expect(await pull.nack(first(await pull.claim({ waitMs: 30_000 })), 'two')).toBe('dead');
    expect((await bench.job(id)).errors.map(({ message }) => message)).toEqual(['one', 'two']);
  });

  test('extend moves the end of the lease; release gives it back, uncounted', async () => {
    const [id = ''] = await enqueue(1);
    const pull = puller();
    const job = first(await pull.claim());
    expect(await pull.extend(job, '2h')).toEqual({ accepted: [id], stale: [] });
    const leftMs = ((await bench.job(id)).leaseEnds?.getTime() ?? 0) - Date.now();
    expect(leftMs).toBeGreaterThan(7_190_000);
    expect(await pull.release(job)).toEqual({ accepted: [id], stale: [] });
    expect(await bench.job(id)).toMatchObject({ status: 'ready', tries: 0, crashes: 0 });
  });

  test('nothing any more when the lease was lost: all is stale, and the signal aborts', async () => {
    const [id = ''] = await enqueue(1);
    const pull = puller();
    const job = first(await pull.claim());
    await resetNode(bench.database, pull.node);
    await until('the signal', () => job.signal.aborted);
    expect(code(job)).toBe('lease_lost');
    expect(await pull.ack(job)).toEqual({ accepted: [], stale: [id] });
    expect(await pull.nack(job, 'no')).toBe('stale');
    expect(await pull.extend(job, '1h')).toEqual({ accepted: [], stale: [id] });
    expect(await bench.job(id)).toMatchObject({ status: 'ready', crashes: 1 });
    expect(await pull.claim({ waitMs: 60_000 })).toHaveLength(1); // under its new incarnation
  });
});

test('a puller beats by itself: its jobs are neither lost nor taken; it hears of a cancellation', async () => {
  const [id = ''] = await enqueue(1);
  const pull = puller();
  const job = first(await pull.claim());
  await cancel(bench.database, [id]);
  await until('the signal', () => job.signal.aborted);
  expect(code(job)).toBe('cancelled');
  expect(await pull.nack(job, 'stopped')).toBe('cancelled');
  const [node] = await bench.sql(`select heartbeat > started as beats from pgqueue.node where id = $1`, [
    pull.node,
  ]);
  expect(node?.['beats']).toBe(true);
});

test('close releases what is held, leaves, and ends a wait', async () => {
  const [id = ''] = await enqueue(1);
  const pull = puller();
  const job = first(await pull.claim());
  const waiting = pull.claim({ waitMs: 60_000 });
  await Promise.all([pull.close(), expect(waiting).rejects.toMatchObject({ code: 'node_ended' })]);
  expect(code(job)).toBe('shutdown');
  expect(await bench.job(id)).toMatchObject({ status: 'ready', tries: 0, crashes: 0 });
  expect(await bench.sql(`select state from pgqueue.node`)).toEqual([{ state: 'left' }]);
  await expect(pull.claim()).rejects.toMatchObject({ code: 'node_ended' });
});

describe('a database that does not answer', () => {
  /** Nobody listens there. */
  const connectionString = 'postgres://localhost:9/app';
  const refused = { message: expect.stringContaining('ECONNREFUSED') as unknown };

  test('is tried again as long as a first claim waits, which then has its error; so has the next one', async () => {
    const events: PgQueueEvent[] = [];
    const pull = puller({ connectionString, observe: (event) => events.push(event) });
    await expect(pull.claim()).rejects.toMatchObject(refused);
    expect(events).toEqual([]);
    await expect(pull.claim({ waitMs: 200 })).rejects.toMatchObject(refused);
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'database.error',
        during: 'claim',
        retryMs: expect.any(Number) as unknown,
      }),
    );
  });

  test('keeps no claim from its own wait that came during another, and close ends both', async () => {
    const events: PgQueueEvent[] = [];
    const pull = puller({ connectionString, observe: (event) => events.push(event) });
    const waiting = pull.claim({ waitMs: 3_600_000 });
    await expect(pull.claim()).rejects.toMatchObject(refused);
    await until('a retry', () => events.length > 0);
    await Promise.all([pull.close(), expect(waiting).rejects.toMatchObject({ code: 'node_ended' })]);
  });

  test.each(['max(version)', 'register_node('])(
    'is registered with again after a lost reply: %s',
    async (part) => {
      const proxy = await startCutProxy(bench.test.url);
      try {
        proxy.cutReplyOf(part);
        const pull = puller({ connectionString: proxy.url, heartbeatMs: 30_000 });
        const waiting = pull.claim({ waitMs: 60_000 });
        await until('the cut', () => proxy.cuts() === 1);
        const [id] = await enqueue(1);
        expect((await waiting).map((job) => job.id)).toEqual([id]);
        await pull.close();
      } finally {
        await proxy.close();
      }
    },
  );
});

test('peek, length and scan look without taking', async () => {
  const ids = await enqueue(7);
  await bench.producer.enqueue(task, { n: 7 }, { queue: 'other' });
  const pull = puller();
  await pull.claim({ max: 2 });
  const peeked = await pull.peek('default', 2);
  expect(peeked.map(({ id }) => id)).toEqual([ids[2], ids[3]]);
  expect(peeked[0]).not.toHaveProperty('payload');
  expect(await pull.length()).toBe(7);
  expect(await pull.length('other')).toBe(1);
  const seen: string[] = [];
  for (let after: string | null | undefined; after !== null;) {
    const page = await pull.scan({ queue: 'default', limit: 2, ...(after === undefined ? {} : { after }) });
    expect(page.items.length).toBeLessThanOrEqual(2);
    seen.push(...page.items.map(({ id }) => id));
    after = page.next;
  }
  expect(seen).toEqual(ids.slice(2).toSorted());
  expect((await pull.scan()).items).toHaveLength(6);
  await expect(pull.scan({ after: 'x' })).rejects.toMatchObject({ code: 'configuration' });
});

test('verbs refuse no job, as the first of an empty claim is one, before any I/O', async () => {
  const pull = puller();
  const [none] = (await pull.claim()) as [PulledJob];
  const calls = [pull.ack(none), pull.nack(none, 'no'), pull.extend([none], '1s'), pull.release(none)];
  for (const call of calls)
    await expect(call).rejects.toThrow(
      /takes jobs that claim gave, .* not undefined: a claim that took nothing/,
    );
});

test('options are refused with all problems at once', () => {
  expect(() => createPuller({ tasks: [], slots: 0 })).toThrow(/connectionString.*slots.*tasks is empty/);
});
