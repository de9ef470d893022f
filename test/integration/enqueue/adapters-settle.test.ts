import { defineTask, implement } from '@pgqueue/core';
import type { JobContext } from '@pgqueue/core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';
import { builders } from './adapters-builders.ts';
import type { Library } from './adapters-library.ts';
import { orms } from './adapters-orms.ts';

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });

const bench = opened(openWorkerBench);
beforeAll(() => bench.sql('create table invoice (id serial primary key, note text not null)'));

/**
 * Checks that a handler's writes by its own library and the settlement are committed together, or neither is.
 */
describe.each([...builders, ...orms])('ctx.settleIn with $name', ({ open }) => {
  let library: Library;
  beforeAll(async () => {
    library = await open(bench.test.url);
  });
  beforeEach(() => bench.sql('truncate invoice'));
  afterEach(() => bench.clear());
  afterAll(() => library.close());

  const notes = async (): Promise<readonly unknown[]> =>
    (await bench.sql('select note from invoice order by id')).map(({ note }) => note);
  const ended = (id: string, status: string): Promise<unknown> =>
    until(`job to be ${status}`, async () => (await bench.job(id)).status === status);

  async function one(handler: (context: JobContext) => unknown) {
    const worker = await bench.worker([implement(task, (_payload, ctx) => handler(ctx))], {
      heartbeatMs: 60_000,
      lostAfterMs: 120_000,
    });
    const { id } = await bench.producer.enqueue(task, {}, { retry: { base: '1m' } });
    await bench.dispatch();
    return { worker, id };
  }

  test('commits the writes and done together, and not before', async () => {
    let meanwhile: unknown;
    const { worker, id } = await one(async ({ job, settleIn }) => {
      await settleIn((settle) =>
        library.transaction(async (tx) => {
          await tx.write('paid');
          await settle(tx.executor);
          meanwhile = [await notes(), (await bench.job(job.id)).status];
        }),
      );
      throw new Error('after the end');
    });
    await ended(id, 'done');
    await until('the event', () => worker.of('job.settled').length > 0);
    expect(meanwhile).toEqual([[], 'running']);
    expect(await notes()).toEqual(['paid']);
    expect(await bench.job(id)).toMatchObject({ tries: 0 });
    await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
  });

  test('rolls both back, and the attempt goes on', async () => {
    const heard: unknown[] = [];
    const { worker, id } = await one(async ({ settleIn }) => {
      const failed = settleIn((settle) =>
        library.transaction(async (tx) => {
          await tx.write('unpaid');
          await settle(tx.executor);
          throw new Error('business says no');
        }),
      );
      heard.push(await failed.catch((error: unknown) => (error as Error).message));
      throw new Error('not today');
    });
    await ended(id, 'delayed');
    expect(heard).toEqual(['business says no']);
    expect(await notes()).toEqual([]);
    expect(await bench.job(id)).toMatchObject({ tries: 1, lastError: { message: 'not today' } });
    await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'retry' }]);
  });

  test('refuses a stale token, and rolls the writes back', async () => {
    const lost = Promise.withResolvers<void>();
    const heard: unknown[] = [];
    const { worker, id } = await one(async ({ settleIn }) => {
      await lost.promise;
      const refused = settleIn((settle) =>
        library.transaction(async (tx) => {
          await tx.write('stale');
          await settle(tx.executor);
        }),
      );
      await refused.catch((error: unknown) => heard.push((error as { readonly code: unknown }).code));
    });
    await until('the job to run', () => worker.running === 1);
    await bench.sql(`update pgqueue.work_queue set lock_key = 'thief', lock_token = gen_random_uuid()`);
    lost.resolve();
    await until('the answer', () => heard.length > 0);
    expect(heard).toEqual(['lease_lost']);
    expect(await notes()).toEqual([]);
    expect(await bench.job(id)).toMatchObject({ status: 'running', node: 'thief' });
    await expect.poll(() => worker.of('job.stale')).toMatchObject([{ job: id }]);
  });

  test('looks up a COMMIT whose reply is lost: it happened once', async () => {
    const proxy = await startCutProxy(bench.test.url);
    const cut = await open(proxy.url);
    let told: unknown = 'nothing';
    const { worker, id } = await one(async ({ settleIn }) => {
      told = await settleIn((settle) =>
        cut.transaction(async (tx) => {
          await tx.write('once');
          await settle(tx.executor);
          proxy.cutNextReply(); // whatever the statement: each library has its own COMMIT
        }),
      ).catch((error: unknown) => error);
    });
    await ended(id, 'done');
    await until('the answer', () => told !== 'nothing');
    await until('the event', () => worker.of('job.settled').length > 0);
    expect([proxy.cuts(), told]).toEqual([1, undefined]);
    expect(await notes()).toEqual(['once']);
    await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'done' }]);
    expect(worker.of('job.stale')).toEqual([]);
    await cut.close().catch(() => {}); // its connection is gone
    await proxy.close();
  });
});
