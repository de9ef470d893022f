import { cancelled, defineTask, giveUp, implement, implementBatch, retryAfter, snooze } from '@pgqueue/core';
import type { JobContext } from '@pgqueue/core';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { nested } from '../../support/hostile.ts';
import { promoteAll } from '../../support/dispatch-all.ts';
import type { WorkerBench } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(() => bench.clear());

const task = defineTask({
  name: 'task',
  payload: z.object({ n: z.number() }),
  retry: { maxTries: 3, base: '1m', backoff: 'fixed', jitter: 0 },
});

async function one(
  handler: (payload: { n: number }, context: JobContext) => unknown,
  options: Parameters<WorkerBench['producer']['enqueue']>[2] = {},
) {
  const worker = await bench.worker([implement(task, handler)]);
  const { id } = await bench.producer.enqueue(task, { n: 1 }, options);
  await bench.dispatch();
  return { worker, id };
}

const ended = (id: string, status: string): Promise<unknown> =>
  until(`job to be ${status}`, async () => (await bench.job(id)).status === status);

const waitOf = async (id: string): Promise<number> =>
  ((await bench.job(id)).runAfter?.getTime() ?? 0) - Date.now();

describe('a handler that returns', () => {
  test('ends its job as done, with its result in the history', async () => {
    const { worker, id } = await one(({ n }) => ({ doubled: n * 2 }));
    await ended(id, 'done');
    expect(await bench.job(id)).toMatchObject({ result: { doubled: 2 }, tries: 0, node: worker.node });
    await expect.poll(() => worker.of('job.settled')).toHaveLength(1);
    const [settled] = worker.of('job.settled');
    expect(settled).toMatchObject({ job: id, task: 'task', verdict: 'done' });
    expect(worker.of('job.started')).toHaveLength(1);
    expect(JSON.stringify(worker.events)).not.toContain('doubled');
    expect(await bench.sql('select * from pgqueue.work_queue')).toEqual([]);
  });

  test.each([
    ['nothing', undefined, null],
    ['NUL and a lone surrogate', { a: 'x\u0000y', 'k\u0000': '\ud800' }, { a: 'xy', k: '\ufffd' }],
    ['a BigInt', 1n, { pgqueue_error: expect.stringContaining('BigInt') }],
    ['600 levels', nested(600), { pgqueue_error: expect.stringContaining('500 levels') }],
  ])('%s', async (_what, value, stored) => {
    const { id } = await one(() => value);
    await ended(id, 'done');
    expect((await bench.job(id)).result).toEqual(stored);
  });
});

test('a settlement that the database refuses costs no other of its batch anything', async () => {
  const gate = Promise.withResolvers<void>();
  const ids: string[] = [];
  await bench.worker([
    implement(task, async ({ n }) => {
      await gate.promise;
      if (n === 4) throw new Error('no');
      return n % 3 === 0 ? nested(600) : n;
    }),
  ]);
  for (let n = 0; n < 10; n += 1) ids.push((await bench.producer.enqueue(task, { n })).id);
  // older than the rule that it breaks: it can't be updated
  await bench.sql('alter table pgqueue.queue drop constraint queue_check');
  await bench.sql(`update pgqueue.queue set timeout = '300000 years' where id = $1`, [ids[4]]);
  await bench.sql(
    'alter table pgqueue.queue add constraint queue_check check (pgqueue.check_job(queue.*)) not valid',
  );
  await bench.dispatch();
  await until('all to run', async () => {
    const [row] = await bench.sql('select count(lock_key)::integer as running from pgqueue.work_queue');
    return row?.['running'] === 10;
  });
  gate.resolve();
  for (const [n, id] of ids.entries()) await ended(id, n === 4 ? 'dead' : 'done');
  const deep = { pgqueue_error: expect.stringContaining('500 levels') };
  const results = await Promise.all(ids.map(async (id) => (await bench.job(id)).result));
  expect(results).toEqual([deep, 1, 2, deep, null, 5, deep, 7, 8, deep]);
  expect((await bench.job(ids[4] ?? '')).lastError).toMatchObject({
    message: expect.stringContaining('queue_timeout_check'),
  });
});

describe('a result that throws while it is read', () => {
  const unreadable = (): object => {
    const { proxy, revoke } = Proxy.revocable(new Error('never read'), {});
    revoke();
    return {
      toJSON() {
        throw proxy;
      },
    };
  };

  test.each(['alone', 'in a bundle'])(
    'is an error of its attempt, and its slot is free again: %s',
    async (how) => {
      let runs = 0;
      const result = (): unknown => ((runs += 1) > 1 ? 'read' : unreadable());
      const handler = how === 'alone' ? implement(task, result) : implementBatch(task, () => [result()]);
      const worker = await bench.worker([handler], { concurrency: 1 });
      const first = await bench.producer.enqueue(task, { n: 1 });
      const second = await bench.producer.enqueue(task, { n: 2 });
      await bench.dispatch();
      await ended(second.id, 'done');
      await ended(first.id, 'delayed');
      expect((await bench.job(first.id)).lastError).toMatchObject({ kind: 'error' });
      await until('the slot to be free', () => worker.running === 0);
    },
  );
});

describe('a handler that throws', () => {
  test('is tried again after the backoff of its task, and its job is dead after maxTries, with every error', async () => {
    let n = 0;
    const { worker, id } = await one(() => {
      n += 1;
      throw new Error(`attempt ${n}`);
    });
    for (const tries of [1, 2]) {
      await ended(id, 'delayed');
      const job = await bench.job(id);
      expect(job.tries).toBe(tries);
      const delayMs = await waitOf(id);
      expect(delayMs).toBeGreaterThan(20_000);
      expect(delayMs).toBeLessThan(61_000);
      await promoteAll(bench.database);
    }
    await ended(id, 'dead');
    const { errors, reason, tries } = await bench.job(id);
    expect({ reason, tries }).toEqual({ reason: 'max_tries', tries: 3 });
    expect(errors.map(({ message, try: of, node, kind }) => ({ message, of, node, kind }))).toEqual(
      [1, 2, 3].map((of) => ({ message: `attempt ${of}`, of, node: worker.node, kind: 'error' })),
    );
    await expect
      .poll(() => worker.of('job.settled').map(({ verdict }) => verdict))
      .toEqual(['retry', 'retry', 'dead']);
  });

  test.each<[string, () => unknown, object]>([
    [
      'its cause, and the errors of an AggregateError',
      () => new Error('fetch failed', { cause: new AggregateError([new RangeError('a'), 'b'], 'both') }),
      {
        name: 'Error',
        message: 'fetch failed',
        cause: {
          name: 'AggregateError',
          message: 'both',
          errors: [
            { name: 'RangeError', message: 'a' },
            { name: 'NonError', message: 'b' },
          ],
        },
      },
    ],
    ['an object', () => ({ code: 5 }), { name: 'NonError', message: '{"code":5}' }],
    ['giveUp without a reason', () => giveUp(), { message: 'the handler gave up, and gave no reason' }],
    [
      'retryAfter without a reason',
      () => retryAfter('1h'),
      { message: 'the handler asked for another try, and gave no reason' },
    ],
  ])('keeps with its job what it threw: %s', async (_what, thrown, kept) => {
    const { id } = await one(() => {
      throw thrown() as Error;
    });
    await until('the attempt to have ended', async () => (await bench.job(id)).tries === 1);
    expect((await bench.job(id)).lastError).toMatchObject(kept);
  });

  test("the job's own retry policy counts before the task's", async () => {
    const { id } = await one(
      () => {
        throw new Error('no');
      },
      { retry: { base: '10m', backoff: 'fixed', jitter: 0 } },
    );
    await ended(id, 'delayed');
    expect(await waitOf(id)).toBeGreaterThan(590_000);
  });

  test("the delays are the task's if the job brings limits only, by the task or by its name", async () => {
    const hourly = defineTask({ name: 'hourly', payload: z.object({}), retry: { base: '1h', jitter: 0 } });
    await bench.worker([
      implement(hourly, () => {
        throw new Error('no');
      }),
    ]);
    const limits = { retry: { maxTries: 7, maxCrashes: 2 } };
    const given = [
      await bench.producer.enqueue(hourly, {}, limits),
      await bench.producer.enqueueByName('hourly', {}, limits),
    ];
    await bench.dispatch();
    for (const { id } of given) {
      await ended(id, 'delayed');
      expect(await bench.job(id)).toMatchObject({ tries: 1, maxTries: 7, maxCrashes: 2 });
      expect(await waitOf(id)).toBeGreaterThan(3_000_000);
    }
  });
});

describe('an outcome', () => {
  test.each(['returned', 'thrown'] as const)('%s: giveUp ends in the dead letter at once', async (how) => {
    const { id } = await one(() => {
      const outcome = giveUp(new Error('never'));
      if (how === 'returned') return outcome;
      throw outcome as unknown as Error;
    });
    await ended(id, 'dead');
    expect(await bench.job(id)).toMatchObject({
      reason: 'gave_up',
      tries: 1,
      lastError: { message: 'never' },
    });
  });

  test("retryAfter takes the handler's own delay", async () => {
    const { id } = await one(() => retryAfter('1h', new Error('later')));
    await ended(id, 'delayed');
    const job = await bench.job(id);
    expect(job).toMatchObject({ tries: 1, lastError: { message: 'later' } });
    expect((job.runAfter?.getTime() ?? 0) - Date.now()).toBeGreaterThan(3_590_000);
  });

  test('snooze counts no try', async () => {
    const { id } = await one(() => snooze('1h'));
    await ended(id, 'delayed');
    expect(await bench.job(id)).toMatchObject({ tries: 0, errors: [] });
  });

  test('cancelled ends it there', async () => {
    const { id } = await one(() => cancelled());
    await ended(id, 'cancelled');
    expect(await bench.job(id)).toMatchObject({ tries: 0, errors: [] });
  });
});

describe('a payload', () => {
  test('that does not fit is dead before the handler, and says why', async () => {
    let ran = 0;
    const worker = await bench.worker([implement(task, () => (ran += 1))]);
    const { id } = await bench.producer.enqueueByName('task', { n: 'one' });
    await bench.dispatch();
    await ended(id, 'dead');
    const { reason, errors } = await bench.job(id);
    expect(reason).toBe('gave_up');
    expect(errors[0]).toMatchObject({ kind: 'invalid', message: expect.stringContaining('n:') });
    expect(ran).toBe(0);
    await expect.poll(() => worker.of('job.invalid')).toHaveLength(1);
  });

  const versioned = (upcaster: (old: unknown) => unknown) =>
    defineTask({
      name: 'versioned',
      version: 3,
      payload: z.object({ names: z.array(z.string()) }),
      upcasters: { 2: upcaster },
    });

  test('of an older version is brought to the present one; one that the node does not know is not claimed', async () => {
    const seen: unknown[] = [];
    const handler = implement(
      versioned((old) => ({ names: [(old as { name: string }).name] })),
      (payload) => void seen.push(payload),
    );
    await bench.worker([handler]);
    const enqueue = async (payloadVersion: number, payload: unknown) =>
      (await bench.producer.enqueueByName('versioned', payload, { payloadVersion })).id;
    const unknown = [await enqueue(1, { name: 'old' }), await enqueue(4, { names: ['new'] })];
    const known = [await enqueue(2, { name: 'Ada' }), await enqueue(3, { names: ['Bob'] })];
    await bench.dispatch();
    for (const id of known) await ended(id, 'done');
    expect(seen).toEqual([{ names: ['Ada'] }, { names: ['Bob'] }]);
    for (const id of unknown) expect((await bench.job(id)).status).toBe('ready');
  });

  test('whose upcaster throws is dead', async () => {
    const throwing = versioned(() => {
      throw new Error('cannot');
    });
    await bench.worker([implement(throwing, () => null)]);
    const { id } = await bench.producer.enqueueByName('versioned', {}, { payloadVersion: 2 });
    await bench.dispatch();
    await ended(id, 'dead');
    expect((await bench.job(id)).lastError).toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining('cannot'),
    });
  });
});

test('the handler gets the job, its trace, a logger with its ids, and shows progress', async () => {
  const trace = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
  const lines: object[] = [];
  const log = (data: object): void => void lines.push(data);
  const logger = { debug: log, info: log, warn: log, error: log };
  const shown = Promise.withResolvers<void>();
  let seen: JobContext['job'] | undefined;
  const handler = implement(task, async (_payload, ctx) => {
    seen = ctx.job;
    ctx.log.info({ here: true }, 'hello');
    expect(await ctx.progress({ step: 1 })).toBe(true);
    await shown.promise;
  });
  await bench.worker([handler], { logger });
  const { id } = await bench.producer.enqueue(task, { n: 1 }, { trace, key: 'acme' });
  await bench.dispatch();
  await until('progress', async () => (await bench.job(id)).progress !== null);
  expect((await bench.job(id)).progress).toEqual({ step: 1 });
  shown.resolve();
  await ended(id, 'done');
  expect(seen).toMatchObject({ id, trace, key: 'acme', tries: 0 });
  expect(seen).not.toHaveProperty('token');
  expect(lines).toEqual([{ job: id, task: 'task', try: 1, here: true }]);
});
