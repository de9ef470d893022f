import { AsyncLocalStorage } from 'node:async_hooks';
import {
  cancelled,
  defineTask,
  fanOut,
  giveUp,
  implement,
  implementBatch,
  isolated,
  retryAfter,
  snooze,
} from '@pgqueue/core';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { runHandler } from './run-handler.ts';

const resize = defineTask({
  name: 'resize',
  payload: z.object({ width: z.number().default(80) }),
  checkpoint: z.object({ page: z.number() }),
  retry: { maxTries: 3, backoff: 'fixed', base: '1m', max: '1m', jitter: 0 },
});

afterEach(() => void vi.useRealTimers());

test('what a handler returns is its result', async () => {
  const ran = await runHandler(
    implement(resize, ({ width }) => width * 2),
    {},
  );
  expect(ran).toMatchObject({ outcome: 'done', result: 160, delayMs: null, progress: [], extended: [] });
});

test('what it throws is tried again by its policy, and is dead after the last try', async () => {
  const mine = new Error('no');
  const failing = implement(resize, () => {
    throw mine;
  });
  const first = await runHandler(failing, {});
  expect(first).toMatchObject({ outcome: 'retry', delayMs: 60_000 });
  expect(first.error).toBe(mine);
  expect(await runHandler(failing, {}, { tries: 2 })).toMatchObject({
    outcome: 'dead',
    delayMs: null,
    error: mine,
  });
});

test.each([
  [retryAfter('5s', new Error('busy')), { outcome: 'retry', delayMs: 5_000, error: { message: 'busy' } }],
  [snooze('1h'), { outcome: 'snooze', delayMs: 3_600_000, error: undefined }],
  [giveUp('pointless'), { outcome: 'dead', error: 'pointless' }],
  [cancelled(), { outcome: 'cancelled', error: undefined }],
])('outcomes are values: %#', async (outcome, expected) => {
  expect(
    await runHandler(
      implement(resize, () => outcome),
      {},
    ),
  ).toMatchObject(expected);
  const thrown = implement(resize, () => {
    // oxlint-disable-next-line typescript/only-throw-error -- an outcome may be thrown
    throw outcome;
  });
  expect(await runHandler(thrown, {})).toMatchObject(expected);
});

test('has the whole context, and notes what the handler did with it', async () => {
  const ran = await runHandler(
    implement(resize, async (_payload, ctx) => {
      ctx.log.info({ page: ctx.job.checkpoint?.page }, 'goes on');
      for (const page of [1, 2]) await ctx.progress({ page });
      await ctx.checkpoint({ page: 2 });
      await ctx.extend('10m');
      return [ctx.job.key, ctx.job.tries, ctx.job.attributes, ctx.signal.aborted];
    }),
    { width: 1 },
    { job: { key: 'acme', attributes: { region: 'eu' } }, tries: 1, checkpoint: { page: 1 } },
  );
  expect(ran).toMatchObject({
    outcome: 'done',
    result: ['acme', 1, { region: 'eu' }, false],
    progress: [{ page: 1 }, { page: 2 }],
    checkpoints: [{ page: 2 }],
    extended: [600_000],
    logs: [{ level: 'info', data: { page: 1 }, message: 'goes on' }],
  });
});

describe('a step of a flow', () => {
  const leaf = defineTask({ name: 'leaf', payload: z.object({ n: z.int() }) });
  const approval = z.object({ by: z.string() });
  const sum = defineTask({ name: 'sum', payload: z.object({}), needs: { leaves: leaf, ok: approval } });

  test('reads the results that the test gives', async () => {
    const handler = implement(sum, async (_, { needs }) => {
      let total = 0;
      for await (const { result } of needs.leaves) total += Number(result);
      return { total, done: needs.leaves.done, by: (await needs.ok.one()).by };
    });
    const leaves = Array.from({ length: 1_200 }, (_, n) => n);
    const ran = await runHandler(handler, {}, { needs: { leaves, ok: [{ by: 'ada' }] } });
    expect(ran).toMatchObject({ outcome: 'done', result: { total: 719_400, done: 1_200, by: 'ada' } });
    expect(await runHandler(handler, {}, { needs: { leaves, ok: [{ by: 5 }] } })).toMatchObject({
      outcome: 'retry',
      error: { name: 'ResultError' },
    });
    expect(await runHandler(handler, {})).toMatchObject({ outcome: 'retry', error: { code: 'not_found' } });
  });

  test('shows the jobs that it adds', async () => {
    const jobs = [1, 2, 3].map((n) => leaf.job({ n }));
    const grows = implement(leaf, async ({ n }, { addJobs }) => {
      expect(await addJobs(jobs.slice(0, 1))).toBe(true);
      return fanOut(n === 0 ? jobs.slice(1) : [leaf.job({ n: 0.5 })], 'result');
    });
    const ran = await runHandler(grows, { n: 0 });
    expect(ran).toMatchObject({ outcome: 'done', result: 'result', added: jobs });
    const wrong = await runHandler(grows, { n: 1 });
    expect(wrong).toMatchObject({
      outcome: 'retry',
      error: { code: 'invalid_job' },
      added: jobs.slice(0, 1),
    });
  });
});

describe('a wait', () => {
  const leaf = defineTask({ name: 'leaf', payload: z.object({ n: z.int() }) });

  test.each<[string, Parameters<typeof implement<object, object, unknown>>[1], number | null]>([
    ['sleep', (_, ctx) => ctx.sleep('night', '8h'), 28_800],
    ['all', async (_, ctx) => (await ctx.all('leaves', [leaf.job({ n: 1 })])).length, null],
    ['waitForSignal', (_, ctx) => ctx.waitForSignal('ok', { timeout: '1d' }), null],
  ])('by %s suspends the job', async (_name, handler, seconds) => {
    const steps: number[] = [];
    const task = defineTask({ name: 'waits', payload: z.object({}) });
    const ran = await runHandler(
      implement(task, async (payload, ctx) => {
        steps.push(await ctx.step('first', () => 1));
        return (handler as (...given: unknown[]) => unknown)(payload, ctx);
      }),
      {},
    );
    expect(ran).toMatchObject({ outcome: 'suspended', result: undefined, error: undefined });
    expect(ran.delayMs === null ? null : Math.round(ran.delayMs / 1_000)).toBe(seconds);
    expect(steps).toEqual([1]);
  });
});

test('runs within the middleware of its worker', async () => {
  const scope = new AsyncLocalStorage<string>();
  const ran = await runHandler(
    implement(resize, () => scope.getStore()),
    {},
    { around: (job, next) => scope.run(`${job.task}, attempt ${job.attempt}`, next), tries: 1 },
  );
  expect(ran).toMatchObject({ outcome: 'done', result: 'resize, attempt 2' });
  const refused = await runHandler(
    implement(resize, () => {}),
    {},
    { around: async (_job, next) => Promise.reject(new Error('no licence', { cause: await next() })) },
  );
  expect(refused).toMatchObject({ outcome: 'retry', error: { message: 'no licence' } });
});

test('a checkpoint that does not fit its schema fails the attempt', async () => {
  const ran = await runHandler(
    implement(resize, (_payload, ctx) => ctx.checkpoint({ page: 'two' } as never)),
    {},
  );
  expect(ran).toMatchObject({ outcome: 'retry', checkpoints: [] });
  expect(String(ran.error)).toContain("can't keep this checkpoint: page");
});

test('past its timeout the signal aborts, and the attempt is over', async () => {
  const ran = await runHandler(
    implement(resize, async (_payload, { signal }) => {
      const aborted = Promise.withResolvers<void>();
      signal.addEventListener('abort', () => aborted.resolve());
      await aborted.promise;
      return 'too late';
    }),
    {},
    { job: { timeout: '50ms' } },
  );
  expect(ran).toMatchObject({ outcome: 'retry', result: undefined, error: 'it was not done within 50 ms' });
});

test('a handler that ignores its signal holds up nobody', async () => {
  const hangs = implement(resize, () => new Promise<void>(() => {}));
  const job = { timeout: '50ms' } as const;
  expect(await runHandler(hangs, {}, { job })).toMatchObject({
    outcome: 'retry',
    delayMs: 60_000,
    error: 'it was not done within 50 ms',
  });
  expect(await runHandler(hangs, {}, { job, tries: 2 })).toMatchObject({ outcome: 'dead' });
  const cancelled = await runHandler(hangs, {}, { job, abort: { reason: 'cancelled' } });
  expect(cancelled).toMatchObject({ outcome: 'cancelled' });
  const lost = await runHandler(hangs, {}, { abort: { reason: 'lease_lost' } });
  expect(lost).toMatchObject({ outcome: 'lost' });
});

test.each([
  ['cancelled', 'cancelled'],
  ['shutdown', 'released'],
  ['node_silent', 'released'],
  ['lease_lost', 'lost'],
] as const)('an attempt that is aborted (%s) ends as %s', async (reason, outcome) => {
  const begun = Promise.withResolvers<void>();
  const ran = await runHandler(
    implement(resize, async (_payload, { signal }) => {
      const aborted = Promise.withResolvers<never>();
      signal.addEventListener('abort', () => aborted.reject(signal.reason));
      begun.resolve();
      await aborted.promise;
    }),
    {},
    { abort: { reason, when: begun.promise } },
  );
  expect(ran.outcome).toBe(outcome);
});

test('without a database its transactions are refused, with what to do', async () => {
  for (const use of ['transaction', 'settleIn'] as const) {
    const ran = await runHandler(
      implement(resize, (_payload, ctx) => ctx[use](() => Promise.resolve())),
      {},
    );
    expect(String(ran.error)).toMatch(/needs a database|settle was not called/);
  }
});

test('a payload that does not fit is refused as at enqueue', async () => {
  const handler = implement(resize, () => {});
  await expect(runHandler(handler, { width: 'wide' } as never)).rejects.toThrow(
    /job of task "resize" can't be enqueued.*width/,
  );
});

test('wrong use is told at once', async () => {
  const batch = implementBatch(resize, () => {});
  await expect(runHandler(batch, {})).rejects.toThrow('handlers of bundles run in a drain');
  await expect(runHandler(resize as never, {})).rejects.toThrow('handler must be made by implement');
  const apart = implement(resize, isolated(new URL('data:text/javascript,')));
  await expect(runHandler(apart, {})).rejects.toThrow('an isolated handler runs in a drain');
  const wrong = { tires: 1, abort: { reason: 'timeout' } };
  await expect(runHandler(batch, {}, wrong as never)).rejects.toThrow(
    /tires: did you mean tries.*abort\.reason must be/,
  );
});

test("a test's fake timers are the handler's, and hold up nothing else", async () => {
  vi.useFakeTimers();
  const slow = implement(resize, async () => {
    void Promise.reject(new Error('nobody awaits it'));
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  });
  const running = runHandler(slow, {});
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await running).toMatchObject({ outcome: 'retry', error: { message: 'nobody awaits it' } });
  const hangs = runHandler(
    implement(resize, () => new Promise<void>(() => {})),
    {},
    { job: { timeout: '1s' } },
  );
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await hangs).toMatchObject({ outcome: 'retry', error: 'it was not done within 1000 ms' });
  expect(
    await runHandler(
      implement(resize, () => 1),
      {},
    ),
  ).toMatchObject({ outcome: 'done', result: 1 });
});
