import { once } from 'node:events';
import { defineTask, implement } from '@pgqueue/core';
import type { JobContext } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { cancel, reap, resetNode, settle } from '@pgqueue/postgres/internal';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { promoteAll } from '../../support/dispatch-all.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, seldom, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
const operator = opened(() => createOperator({ pool: bench.database.pool }));
afterEach(() => bench.clear());

// longer than a busy machine takes from a claim to the handler
const task = defineTask({ name: 'task', payload: z.object({}), timeout: '3s' });
const slow = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });

const reasonOf = (signal: AbortSignal): unknown => (signal.reason as { readonly code: unknown }).code;

/** Ends when its signal aborts, as a handler should. */
async function untilAborted({ signal }: JobContext): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw signal.reason;
}

async function enqueue(): Promise<string> {
  const { id } = await bench.producer.enqueue(task, {}, { retry: { base: '1m', backoff: 'fixed' } });
  await bench.dispatch();
  return id;
}

async function enqueueSlow(): Promise<string> {
  const { id } = await bench.producer.enqueue(slow, {}, { retry: { base: '1m', backoff: 'fixed' } });
  await bench.dispatch();
  return id;
}

const ended = (id: string, status: string): Promise<unknown> =>
  until(`job to be ${status}`, async () => (await bench.job(id)).status === status);

const started = (worker: TestWorker, count = 1): Promise<unknown> =>
  until(`${count} to have started`, () => worker.of('job.started').length >= count);

describe('a timeout', () => {
  test('aborts the signal before the lease ends, and settles as a retry', async () => {
    const reasons: unknown[] = [];
    const worker = await bench.worker([
      implement(task, async (_payload, ctx) => {
        ctx.signal.addEventListener('abort', () => reasons.push(reasonOf(ctx.signal)));
        await untilAborted(ctx);
      }),
    ]);
    const id = await enqueue();
    await ended(id, 'delayed');
    expect(reasons).toEqual(['timeout']);
    const { tries, crashes, errors } = await bench.job(id);
    expect({ tries, crashes }).toEqual({ tries: 1, crashes: 0 });
    expect(errors).toMatchObject([{ kind: 'timeout', message: expect.stringContaining('3000 ms') }]);
    await expect.poll(() => worker.of('job.timeout')).toMatchObject([{ job: id, timeoutMs: 3_000 }]);
    expect(worker.of('job.stale')).toEqual([]);
  });

  test('is settled at once though the handler ignores its signal; its slot stays taken, what it does later is ignored', async () => {
    const finish = Promise.withResolvers<string>();
    let runs = 0;
    const handler = implement(task, () => ((runs += 1) === 1 ? finish.promise : 'second'));
    const worker = await bench.worker([handler], { concurrency: 1 });
    const id = await enqueue();
    await ended(id, 'delayed');
    expect(worker.running).toBe(1);
    await promoteAll(bench.database);
    await bench.sql(`select pg_notify('pgqueue:work', '')`);
    const beats = new Set<unknown>();
    await until('two heartbeats', async () => {
      const [row] = await bench.sql('select heartbeat::text as beat from pgqueue.node');
      return beats.add(row?.['beat']).size > 2;
    });
    expect((await bench.job(id)).status).toBe('ready');
    const hung = async (): Promise<unknown> => {
      const { nodes, warnings } = await operator.status();
      const slots = warnings.flatMap((warning) => (warning.kind === 'hung_handlers' ? [warning.slots] : []));
      return { inUse: nodes.slotsInUse, slots };
    };
    await expect.poll(hung).toEqual({ inUse: 1, slots: [1] });
    finish.resolve('first, late');
    await ended(id, 'done');
    expect(await bench.job(id)).toMatchObject({ result: 'second', tries: 1 });
    expect(runs).toBe(2);
    await expect
      .poll(() => worker.of('job.settled').map(({ verdict }) => verdict))
      .toEqual(['retry', 'done']);
    await expect.poll(hung).toEqual({ inUse: 0, slots: [] });
  });

  test('is moved by extend, on both sides', async () => {
    const gate = Promise.withResolvers<void>();
    const worker = await bench.worker([
      implement(task, async (_payload, ctx) => {
        expect(await ctx.extend('1h')).toBe(true);
        await gate.promise;
        return ctx.signal.aborted;
      }),
    ]);
    const { id } = await bench.producer.enqueue(slow, {}, { timeout: '3s' });
    await bench.dispatch();
    await until('its first lease to be over', async () => {
      const [row] = await bench.sql(
        `select started + interval '4 s' < clock_timestamp() as over from pgqueue.work_queue`,
      );
      return row?.['over'] === true;
    });
    gate.resolve();
    await ended(id, 'done');
    expect((await bench.job(id)).result).toBe(false);
    await expect.poll(() => worker.of('job.settled')).toHaveLength(1);
    expect(worker.of('job.timeout')).toEqual([]);
  });
});

describe('a cancellation', () => {
  test.each([
    ['throws', 'cancelled', true],
    ['throws, without LISTEN', 'cancelled', false],
    ['gets done all the same', 'done', true],
  ] as const)(
    'aborts the signal of a running job; a handler that %s ends as %s',
    async (how, status, listen) => {
      let reason: unknown;
      const worker = await bench.worker(
        [
          implement(slow, async (_payload, ctx) => {
            await untilAborted(ctx).catch(() => (reason = reasonOf(ctx.signal)));
            if (how === 'gets done all the same') return 'done';
            throw new Error('anything');
          }),
        ],
        // with LISTEN it learns of it long before the next heartbeat
        { listen, heartbeatMs: listen ? 120_000 : 100, lostAfterMs: 600_000 },
      );
      const id = await enqueueSlow();
      await started(worker);
      expect((await cancel(bench.database, [id])).get(id)).toBe('signalled');
      await ended(id, status);
      expect(reason).toBe('cancelled');
      expect((await bench.job(id)).tries).toBe(0);
    },
  );
});

/** Changes the lease as a node does that takes over an expired one. */
const steal = () =>
  bench.sql(`update pgqueue.work_queue set lock_key = 'thief', lock_token = gen_random_uuid()`);

describe('a lost lease', () => {
  test('aborts the signal; a late end changes nothing; the node registers anew and runs it again', async () => {
    const reasons: unknown[] = [];
    const worker = await bench.worker([
      implement(slow, async (_payload, ctx) => {
        if (reasons.length > 0) return 'second';
        await untilAborted(ctx).catch(() => reasons.push(reasonOf(ctx.signal)));
        return 'first, late';
      }),
    ]);
    const id = await enqueueSlow();
    await started(worker);
    expect(await resetNode(bench.database, worker.node)).toEqual({ ready: 1, dead: 0, cancelled: 0 });
    await ended(id, 'done');
    expect(await bench.job(id)).toMatchObject({ result: 'second', crashes: 1, tries: 0 });
    expect(reasons).toEqual(['lease_lost']);
    await expect.poll(() => worker.of('job.stale')).toMatchObject([{ job: id }]);
    expect(worker.of('node.ended')).toHaveLength(1);
    expect(worker.of('node.registered')).toHaveLength(2);
  });

  test('is found by a settle that comes before the next heartbeat: refused as stale', async () => {
    const finish = Promise.withResolvers<string>();
    const worker = await bench.worker([implement(slow, () => finish.promise)], seldom);
    const id = await enqueueSlow();
    await Promise.all([started(worker), bench.beaten()]);
    await steal();
    finish.resolve('late');
    await until('the stale settle', () => worker.of('job.stale').length > 0);
    await expect.poll(() => worker.of('job.stale')).toMatchObject([{ job: id, during: 'settle' }]);
    expect(await bench.job(id)).toMatchObject({ status: 'running', node: 'thief' });
  });

  test('of an extend: false, and the signal aborts', async () => {
    const step = Promise.withResolvers<void>();
    const heard: unknown[] = [];
    const worker = await bench.worker(
      [
        implement(slow, async (_payload, ctx) => {
          await step.promise;
          heard.push(await ctx.extend('1h'), reasonOf(ctx.signal), await ctx.progress(1));
        }),
      ],
      seldom,
    );
    await enqueueSlow();
    await Promise.all([started(worker), bench.beaten()]);
    await steal();
    step.resolve();
    await until('both answers', () => heard.length === 3);
    expect(heard).toEqual([false, 'lease_lost', false]);
    await expect.poll(() => worker.of('job.stale')).toHaveLength(1);
  });
});

describe('an expired lease', () => {
  test('is stolen by another node, and counts a crash', async () => {
    const id = await enqueue();
    await bench.sql(
      `select pgqueue.register_node('mute', '{"task": {"min": 1, "max": 1, "timeoutMs": 60000}}')`,
    );
    const held = await bench.sql(
      `select c.id from pgqueue.node n, pgqueue.claim(n.id, n.incarnation, 1) c where n.id = 'mute'`,
    );
    expect(held).toEqual([{ id }]);
    const thief = await bench.worker([implement(task, () => 'stolen')]);
    await ended(id, 'done');
    expect(await bench.job(id)).toMatchObject({ node: thief.node, result: 'stolen', crashes: 1, tries: 0 });
  });

  test('again and again ends in the dead letter: crash_limit', async () => {
    const id = await enqueue();
    for (let crash = 0; crash < 3; crash += 1) {
      await bench.sql(`select pgqueue.register_node('mute', '{"task": {"min": 1, "max": 1, "timeoutMs": null}}',
                              p_incarnation => '00000000-0000-4000-8000-000000000000')`);
      await bench.sql(`select pgqueue.claim('mute', '00000000-0000-4000-8000-000000000000', 1)`);
      await bench.sql(
        `update pgqueue.work_queue set lock_timeout = clock_timestamp() where lock_key = 'mute'`,
      );
      expect(await reap(bench.database)).toBe(1);
    }
    expect(await bench.job(id)).toMatchObject({ status: 'dead', reason: 'crash_limit', crashes: 3 });
  });
});

test('a settle whose reply was lost is told from a stale one', async () => {
  const worker = await bench.worker([implement(slow, () => new Promise(() => {}))]);
  const id = await enqueueSlow();
  await started(worker);
  const [lease] = await bench.sql(`select id, lock_token as token from pgqueue.work_queue`);
  const settlement = {
    id,
    token: String(lease?.['token']),
    outcome: 'done',
    delayMs: null,
    data: '1',
  } as const;
  expect((await settle(bench.database, [settlement])).get(id)).toBe('done');
  expect((await settle(bench.database, [settlement], { repeat: true })).get(id)).toBe('repeated');
  expect((await settle(bench.database, [settlement])).has(id)).toBe(false);
});
