import type { BatchContext, BatchJob, JobContext } from '@pgqueue/core';
import { defineTask, implement, implementBatch, isolated, snooze } from '@pgqueue/core';
import { expect, test } from 'vitest';
import type { Isolation } from '../isolation/isolation.ts';
import type { Ending } from '../lease/ending.ts';
import type { Around, AroundJob } from './around.ts';
import { aroundHandler, aroundIsolation } from './around.ts';

const anything = {
  '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) },
} as const;
const task = defineTask({ name: 'task', payload: anything });

const fact = { id: 'a', queue: 'q', task: 'task', key: 'acme', tries: 1, crashes: 2 };
const context = {
  job: fact,
  signal: new AbortController().signal,
  log: { info: () => {} },
} as unknown as JobContext;

/** Calls a handler through `around`, as a worker does. */
function run(around: Around, handler: () => unknown = () => 'result'): Promise<unknown> {
  const found = aroundHandler(around, implement(task, handler));
  if (typeof found.handler !== 'function') throw new Error('no function');
  return (found.handler as (payload: unknown, ctx: JobContext) => Promise<unknown>)({ n: 1 }, context);
}

const failing = (): never => {
  throw new Error('of the handler');
};

test('without middleware handlers and isolation stay the very ones', () => {
  const found = implement(task, () => {});
  expect(aroundHandler(undefined, found)).toBe(found);
  const isolation = {} as Isolation;
  expect(aroundIsolation(undefined, isolation)).toBe(isolation);
});

test('it sees the job, its attempt and its payload', async () => {
  const seen: AroundJob[] = [];
  await run((job, next) => {
    seen.push(job);
    return next();
  });
  const job = { ...fact, attempt: 4, payload: { n: 1 } };
  expect(seen).toEqual([{ ...job, jobs: [job], signal: context.signal, log: context.log }]);
});

test('a bundle is one call, with all of its jobs', async () => {
  const jobs = [
    { ...fact, payload: 1 },
    { ...fact, id: 'b', tries: 0, crashes: 0, payload: 2 },
  ] as unknown as readonly BatchJob[];
  const seen: AroundJob[] = [];
  const around: Around = (job, next) => {
    seen.push(job);
    return next();
  };
  const found = aroundHandler(
    around,
    implementBatch(task, (bundle) => bundle.map(({ id }) => id)),
  );
  const call = found.handler as (jobs: readonly BatchJob[], ctx: BatchContext) => unknown;
  expect(await call(jobs, context as unknown as BatchContext)).toEqual(['a', 'b']);
  expect(seen).toMatchObject([
    { id: 'a', key: 'acme', attempt: 4, jobs: [{ payload: 1 }, { id: 'b', attempt: 1, payload: 2 }] },
  ]);
});

test('the result is that of the handler, whatever it returns', async () => {
  const notes: string[] = [];
  const result = await run(
    async (_job, next) => {
      notes.push('before');
      await next();
      notes.push('after');
      return 'another';
    },
    () => {
      notes.push('handler');
      return 'result';
    },
  );
  expect([result, notes]).toEqual(['result', ['before', 'handler', 'after']]);
});

test('it throws in place of the handler: an error, or an outcome', async () => {
  await expect(run(() => Promise.reject(new Error('before')))).rejects.toThrow('before');
  const outcome = snooze('1m');
  await expect(
    run(async (_job, next) => {
      await next();
      // oxlint-disable-next-line typescript/only-throw-error -- an outcome may be thrown
      throw outcome;
    }),
  ).rejects.toBe(outcome);
  const translated: Around = (_job, next) => next().catch(() => Promise.reject(new Error('translated')));
  await expect(run(translated, failing)).rejects.toThrow('translated');
});

test('an error of the handler counts even if it is caught', async () => {
  await expect(run((_job, next) => next().catch(() => 'fine'), failing)).rejects.toThrow('of the handler');
});

test.each<[string, Around, string]>([
  ['does not call next', () => Promise.resolve(), 'around did not call next()'],
  [
    'calls it twice',
    async (_job, next) => {
      await next();
      await next();
    },
    'around called next() a second time',
  ],
])('one that %s fails the attempt', async (_what, around, message) => {
  await expect(run(around)).rejects.toThrow(message);
});

test('one that does not await next fails the attempt, once the handler has ended', async () => {
  const handler = Promise.withResolvers<void>();
  const notes: string[] = [];
  const ran = run(
    (_job, next) => {
      void next();
      return Promise.resolve();
    },
    () => handler.promise.then(() => notes.push('ended')),
  );
  handler.resolve();
  await expect(ran).rejects.toThrow('around returned before next() had ended');
  expect(notes).toEqual(['ended']);
});

test('one that throws while the handler runs keeps the slot until the handler has ended', async () => {
  const handler = Promise.withResolvers<void>();
  const notes: string[] = [];
  const ran = run(
    (_job, next) => Promise.race([next(), Promise.reject(new Error('too slow'))]),
    () => handler.promise.then(() => notes.push('ended')),
  );
  handler.resolve();
  await expect(ran).rejects.toThrow('too slow');
  expect(notes).toEqual(['ended']);
});

test('after it has returned, next runs nothing', async () => {
  let kept: (() => Promise<unknown>) | undefined;
  let calls = 0;
  const ran = run(
    (_job, next) => {
      kept = next;
      return Promise.resolve();
    },
    () => (calls += 1),
  );
  await expect(ran).rejects.toThrow('did not call next()');
  await expect(kept?.()).rejects.toThrow('around called next() after it had returned');
  expect(calls).toBe(0);
});

test.each<[Ending, Around, Ending]>([
  [{ kind: 'returned', value: 1 }, (_job, next) => next(), { kind: 'returned', value: 1 }],
  [
    { kind: 'returned', value: 1 },
    (_job, next) => next().then(() => Promise.reject(new Error('after'))),
    { kind: 'threw', error: new Error('after') },
  ],
  [
    { kind: 'threw', error: new Error('in it') },
    (_job, next) => next(),
    { kind: 'threw', error: new Error('in it') },
  ],
  [{ kind: 'crashed', why: 'killed' }, (_job, next) => next(), { kind: 'crashed', why: 'killed' }],
  [
    { kind: 'crashed', why: 'killed' },
    (_job, next) => next().catch(() => Promise.reject(new Error('translated'))),
    { kind: 'crashed', why: 'killed' },
  ],
])('around an isolated handler that ended as %j', async (ending, around, expected) => {
  const isolation: Isolation = { run: () => Promise.resolve(ending), close: () => Promise.resolve() };
  const handler = isolated(new URL('file:///handler.ts'));
  const rejections = { rejected: () => {}, handled: () => {} };
  expect(aroundHandler(around, implement(task, handler)).handler).toBe(handler);
  expect(await aroundIsolation(around, isolation).run(handler, { n: 1 }, context, rejections)).toEqual(
    expected,
  );
});
