import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { TaskDefinition } from './task-definition.ts';
import { implement, implementBatch, isTaskHandler } from './handler.ts';
import { defineTask } from './task.ts';

const payload = z.object({ to: z.string() });
const upcaster = (from: number) => (value: unknown) => ({ ...(value as object), [`from${from}`]: true });

describe('a definition', () => {
  test.each<[string, object]>([
    ['name must', { name: '' }],
    ['name must', { name: 'n'.repeat(201) }],
    ['payload must', { payload: {} }],
    ['payload must', { payload: undefined }],
    ['version must', { version: 0 }],
    ['version must', { version: 1.5 }],
    ['timeout must', { timeout: 0 }],
    ['timeout must', { timeout: 'soon' }],
    ['retry.maxTries must', { retry: { maxTries: 0 } }],
  ])('%s …: %j', (problem, part) => {
    const definition = { name: 'mail', payload, ...part } as TaskDefinition<typeof payload>;
    expect(() => defineTask(definition)).toThrow(problem);
  });

  test('all that is wrong is told at once', () => {
    const wrong = { name: '', payload, version: 0, timeout: -1, retry: { jitter: 3 } };
    expect(() => defineTask(wrong)).toThrow(
      /^task "": name must.*; version must.*; timeout must.*; retry.jitter must/,
    );
  });

  test.each([
    [3, [1]],
    [3, [3]],
    [4, [1, 3]],
    [1, [0]],
    [2, [0, 1]],
    [3, [1.5, 2]],
    [2, [1, 2]],
  ])('version %d with upcasters from %j has a gap', (version, froms) => {
    const upcasters = Object.fromEntries(froms.map((from) => [from, upcaster(from)]));
    expect(() => defineTask({ name: 'mail', payload, version, upcasters })).toThrow('without a gap');
  });
});

describe('versions', () => {
  const task = defineTask({
    name: 'mail',
    payload,
    version: 4,
    upcasters: { 2: upcaster(2), 3: upcaster(3) },
  });

  test('reach down to the oldest upcaster', () => {
    expect([task.minVersion, task.version]).toEqual([2, 4]);
    expect(defineTask({ name: 'mail', payload }).minVersion).toBe(1);
    expect(defineTask({ name: 'mail', payload, version: 7 }).minVersion).toBe(7);
  });

  test('are brought up one by one', () => {
    expect(task.upcast({ to: 'a' }, 2)).toEqual({ to: 'a', from2: true, from3: true });
    expect(task.upcast({ to: 'a' }, 3)).toEqual({ to: 'a', from3: true });
    expect(task.upcast({ to: 'a' }, 4)).toEqual({ to: 'a' });
  });

  test.each([1, 5, 0])('version %d is refused', (version) => {
    expect(() => task.upcast({}, version)).toThrow(`no payload of version ${version}`);
  });
});

describe('a job', () => {
  const task = defineTask({
    name: 'mail',
    payload,
    key: ({ to }) => to,
    attributes: ({ to }) => ({ domain: to.split('@')[1] ?? '' }),
    queue: 'mails',
    timeout: '1m',
    retry: { maxTries: 3, backoff: 'fixed' },
  });

  test('takes from the task what is not said', () => {
    expect(task.job({ to: 'a@b' })).toMatchObject({
      task: 'mail',
      payloadVersion: 1,
      payload: { to: 'a@b' },
      options: {
        key: 'a@b',
        attributes: { domain: 'b' },
        queue: 'mails',
        timeout: '1m',
        retry: { maxTries: 3, backoff: 'fixed' },
      },
    });
    expect(task.timeoutMs).toBe(60_000);
  });

  test('what is said wins; retry by its parts', () => {
    const { options } = task.job({ to: 'a@b' }, { key: 'k', queue: 'q', retry: { maxTries: 9 } });
    expect(options).toMatchObject({ key: 'k', queue: 'q', retry: { maxTries: 9, backoff: 'fixed' } });
  });

  test('a payload that breaks the key function is a problem, no exception', async () => {
    const job = task.job(undefined as never);
    expect(await job.check(undefined)).toEqual([
      expect.stringMatching(/expected object/),
      expect.stringMatching(/^key or attributes can't be derived from the payload: /),
    ]);
  });

  test('problems name their path', async () => {
    const deep = defineTask({ name: 'deep', payload: z.object({ a: z.array(z.object({ b: z.number() })) }) });
    const parsed = await deep.parse({ a: [{ b: 1 }, { b: 'x' }] });
    expect(parsed).toEqual({ ok: false, problems: [expect.stringMatching(/^a\.1\.b: /)] });
  });
});

test('a generator is no handler: its calls would run nothing', () => {
  const mail = defineTask({ name: 'mail', payload });
  const generators = [
    function* () {
      yield 1;
    },
    async function* () {
      yield await Promise.resolve(1);
    },
  ];
  for (const generator of generators) {
    expect(() => implement(mail, generator as never)).toThrow(
      'implement(task, handler) of task "mail": handler must not be a generator: a call of one runs nothing',
    );
  }
});

test('a handler is known by its kind', () => {
  const mail = defineTask({ name: 'mail', payload });
  expect(isTaskHandler(implement(mail, () => undefined))).toBe(true);
  expect(isTaskHandler(implementBatch(mail, () => undefined))).toBe(true);
  expect([null, undefined, {}, () => {}, 'pgqueue.handler'].some(isTaskHandler)).toBe(false);
});
