// Hostile names and values in every argument of the API, for callers without TypeScript: each value is
// accepted, or refused with a proper error. Methods are listed from the objects themselves: a new one fails
// the test until it is tried here.
import { flow as aFlow, defineTask, PgQueueError } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { breaches, openDatabase, sqlState } from '@pgqueue/postgres/internal';
import type { Database, Operator } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import type { Producer } from '@pgqueue/producer';
import { createPuller } from '@pgqueue/worker';
import type { Puller } from '@pgqueue/worker';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { hostileTexts, hostileValues } from '../../support/hostile.ts';

const id = '00000000-0000-7000-8000-000000000001';
const flow = '00000000-0000-7000-8000-0000000000f1';
const task = defineTask({ name: 'hello', payload: z.unknown() });
/** True for large values. Arguments that are no payloads skip them: they would only take time. */
const isLarge = (value: unknown): boolean => typeof value !== 'string' && !small.includes(value);
const small: readonly unknown[] = Object.entries(hostileValues)
  .filter(([name]) => !/^(?:text|a huge|many|\d)/.test(name))
  .map(([, value]) => value);

const own = useDatabase();
let database: Database;
let operator: Operator;
let producer: Producer;
let puller: Puller;
let lost: unknown[] = [];
const onLost = (error: unknown): void => void lost.push(error);

beforeAll(() => {
  const options = { connectionString: own.url, queryTimeoutMs: 5_000 };
  database = openDatabase(options);
  operator = createOperator({ ...options, codec: codecOf(['a'], { plain: 'accept' }) });
  producer = createProducer(options);
  puller = createPuller({ ...options, tasks: ['hello'], node: 'puller' });
  process.on('unhandledRejection', onLost);
});
beforeEach(async () => {
  lost = [];
  await database.query(`insert into pgqueue.queue (id, task) values ($1, 'hello') on conflict do nothing`, [
    id,
  ]);
  await database.query('select pgqueue.start_flow($1::jsonb)', [
    JSON.stringify({ id: flow, name: 'f', steps: [{ name: 'a', kind: 'signal' }] }),
  ]);
});
afterAll(async () => {
  process.off('unhandledRejection', onLost);
  await Promise.all([database.close(), operator.close(), producer.close(), puller.close()]);
});

// oxlint-disable-next-line typescript/no-explicit-any -- what types would refuse is what this is about
type Anything = any;
type Calls = Readonly<Record<string, (value: Anything) => readonly (() => Promise<unknown>)[]>>;

const ofOperator: Calls = {
  'jobs.get': (x) => [() => operator.jobs.get(x)],
  'jobs.wait': (x) => [() => operator.jobs.wait(x, { timeout: '1ms' })],
  'jobs.list': (x) =>
    ['status', 'queue', 'task', 'key', 'flow', 'step', 'after', 'limit'].map(
      (name) => () => operator.jobs.list({ flow, [name]: x }),
    ),
  'jobs.cancel': (x) => [() => operator.jobs.cancel([x])],
  'jobs.cancelAll': (x) =>
    ['status', 'queue', 'task', 'key'].map((name) => () => operator.jobs.cancelAll({ [name]: x })),
  'jobs.count': (x) =>
    ['status', 'queue', 'task', 'key'].map((name) => () => operator.jobs.count({ [name]: x })),
  'jobs.runNow': (x) => [() => operator.jobs.runNow([x])],
  'jobs.retry': (x) => [() => operator.jobs.retry([x])],
  'jobs.amend': (x) => [
    () => operator.jobs.amend([x], { priority: 1 }),
    () => operator.jobs.amend([id], { priority: x }),
    () => operator.jobs.amend([id], { runAfter: x }),
  ],
  'jobs.erase': (x) => [() => operator.jobs.erase([x])],
  'jobs.signal': (x) => [
    () => operator.jobs.signal(x, 'a'),
    () => operator.jobs.signal(id, x),
    () => operator.jobs.signal(id, 'a', x),
  ],
  'dead.list': (x) =>
    ['queue', 'task', 'reason', 'olderThanMs', 'newerThanMs', 'after', 'limit'].map(
      (name) => () => operator.dead.list({ [name]: x }),
    ),
  'dead.redrive': (x) => [
    () => operator.dead.redrive({ ids: [x] }),
    ...['queue', 'task', 'reason', 'olderThanMs', 'newerThanMs'].map(
      (name) => () => operator.dead.redrive({ [name]: x }),
    ),
  ],
  'dead.purge': (x) => [
    () => operator.dead.purge({ ids: [x] }),
    ...['queue', 'task', 'reason', 'olderThanMs', 'newerThanMs'].map(
      (name) => () => operator.dead.purge({ [name]: x }),
    ),
  ],
  'dead.rewrap': (x) => [
    () => operator.dead.rewrap({ ids: [x] }),
    ...['queue', 'task', 'reason', 'olderThanMs', 'newerThanMs'].map(
      (name) => () => operator.dead.rewrap({ [name]: x }),
    ),
  ],
  'flows.list': (x) =>
    ['state', 'name', 'key', 'after', 'limit'].map((name) => () => operator.flows.list({ [name]: x })),
  'flows.show': (x) => [() => operator.flows.show(x)],
  'flows.explain': (x) => [() => operator.flows.explain(x)],
  'flows.results': (x) => [
    () => operator.flows.results(x, 'a'),
    () => operator.flows.results(flow, x),
    ...['after', 'limit'].map((name) => () => operator.flows.results(flow, 'a', { [name]: x })),
  ],
  'flows.signal': (x) => [
    () => operator.flows.signal(x, 'a'),
    () => operator.flows.signal(flow, x),
    () => operator.flows.signal(flow, 'a', x),
  ],
  'flows.cancel': (x) => [() => operator.flows.cancel(x), () => operator.flows.cancel(id, { reason: x })],
  'flows.retry': (x) => [() => operator.flows.retry(x), () => operator.flows.retry(flow, { step: x })],
  'queues.list': () => [() => operator.queues.list()],
  'queues.pause': (x) => [() => operator.queues.pause(x)],
  'queues.resume': (x) => [() => operator.queues.resume(x)],
  'queues.forget': (x) => [() => operator.queues.forget(x)],
  'queues.set': (x) => [
    () => operator.queues.set(x, {}),
    ...['paused', 'pool', 'retention', 'concurrency', 'keyConcurrency', 'rate', 'keyRate', 'weight'].map(
      (name) => () => operator.queues.set('a', { [name]: x }),
    ),
    () => operator.queues.set('a', { rate: { perSecond: x } }),
    () => operator.queues.set('a', { rate: { perSecond: 1, burst: x } }),
  ],
  'nodes.list': () => [() => operator.nodes.list()],
  'nodes.reset': (x) => [() => operator.nodes.reset(x)],
  'schedules.list': () => [() => operator.schedules.list()],
  'schedules.set': (x) => [
    ...['name', 'cron', 'timezone', 'task', 'payload', 'options'].map(
      (name) => () => operator.schedules.set({ name: 'a', cron: '* * * * *', task: 'b', [name]: x }),
    ),
    ...['queue', 'key', 'priority', 'attributes', 'timeout', 'retry', 'payloadVersion'].map(
      (name) => () =>
        operator.schedules.set({ name: 'a', cron: '* * * * *', task: 'b', options: { [name]: x } }),
    ),
  ],
  'schedules.pause': (x) => [() => operator.schedules.pause(x)],
  'schedules.resume': (x) => [() => operator.schedules.resume(x)],
  'schedules.remove': (x) => [() => operator.schedules.remove(x)],
  'schedules.runNow': (x) => [() => operator.schedules.runNow(x)],
  'installation.get': () => [() => operator.installation.get()],
  'installation.init': (x) => [
    () => operator.installation.init(x),
    () => operator.installation.init({ number: x, name: 'a' }),
    () => operator.installation.init({ number: 1, name: x }),
  ],
  'limits.list': () => [() => operator.limits.list()],
  'limits.forfeit': (x) => [
    () => operator.limits.forfeit(x),
    () => operator.limits.forfeit({ limit: x, installation: 1 }),
    () => operator.limits.forfeit({ limit: 'a', installation: x }),
  ],
  'limits.remove': (x) => [() => operator.limits.remove(x)],
  status: () => [() => operator.status()],
  top: (x) => ['keys', 'slowest'].map((name) => () => operator.top({ [name]: x })),
  explain: (x) => [
    () => operator.explain(x, { waitMs: 0 }),
    ...(typeof x === 'string' ? [() => operator.explain(id, { waitMs: x as unknown as number })] : []),
  ],
  recorded: (x) => ['from', 'to', 'after', 'limit'].map((name) => () => operator.recorded({ [name]: x })),
  doctor: () => [() => operator.doctor()],
  check: () => [() => operator.check()],
  close: () => [],
};

const optionNames =
  'id queue key priority attributes runAfter delay expiresAt timeout retry uniqueKey trace payloadVersion'.split(
    ' ',
  );
const enqueueWith = (x: Anything): readonly (() => Promise<unknown>)[] => [
  () => producer.enqueue(task, {}, x),
  ...optionNames.map((name) => () => producer.enqueue(task, {}, { [name]: x })),
  () => producer.enqueue(task, {}, { uniqueKey: { key: x } }),
  () => producer.enqueue(task, {}, { uniqueKey: { key: 'a', onConflict: x } }),
  () => producer.enqueue(task, {}, { uniqueKey: { key: 'a', onConflict: 'debounce', maxWait: x } }),
  () => producer.enqueue(task, {}, { trace: { traceparent: x, tracestate: x } }),
  ...['maxTries', 'maxCrashes', 'backoff', 'base', 'factor', 'max', 'jitter'].map(
    (name) => () => producer.enqueue(task, {}, { retry: { [name]: x } }),
  ),
];
const ofProducer: Calls = {
  enqueue: (x) => [() => producer.enqueue(task, x), ...(isLarge(x) ? [] : enqueueWith(x))],
  enqueueMany: (x) => [
    () => producer.enqueueMany([task.job(x), task.job({})]),
    () => producer.enqueueMany([x]),
  ],
  enqueueByName: (x) => [
    () => producer.enqueueByName(x),
    () => producer.enqueueByName('a', x),
    () => producer.enqueueByName('a', {}, { payloadVersion: x }),
  ],
  result: (x) => [
    () => producer.result(x, { timeout: '1ms' }),
    () => producer.result({ id: x, outcome: 'kept' }, { timeout: 0 }),
    () => producer.result(id, { timeout: typeof x === 'number' ? 0 : x }),
  ],
  start: (x) => [
    () => producer.start(x),
    () => producer.start(aFlow('f').step(x, task.job({}))),
    () => producer.start(aFlow('f').step('a', x)),
    () => producer.start(aFlow('f').step('a', task.job(x))),
    ...(isLarge(x)
      ? []
      : ['id', 'key', 'uniqueKey', 'deadline', 'trace'].map(
          (name) => () => producer.start(aFlow('f').step('a', task.job({})), { [name]: x }),
        )),
  ],
  flow: (x) => [() => Promise.resolve(x).then((given) => producer.flow(given).id)],
  signal: (x) => [
    () => producer.signal(x, 'a', 1),
    () => producer.signal(flow, x, 1),
    () => producer.signal(flow, 'a', x),
  ],
  signalJob: (x) => [
    () => producer.signalJob(x, 'a', 1),
    () => producer.signalJob(id, x, 1),
    () => producer.signalJob(id, 'a', x),
  ],
  with: (x) => [() => producer.with(database.pool).enqueueByName('a', x)],
  close: () => [],
};

const held = { id, token: id, retry: null, tries: 0 };
const ofPuller: Calls = {
  claim: (x) => [
    () => puller.claim({ max: x }),
    () => puller.claim({ waitMs: typeof x === 'number' ? 0 : x }),
  ],
  ack: (x) => [() => puller.ack({ ...held, id: x } as Anything), () => puller.ack(held as Anything, x)],
  nack: (x) => [
    () => puller.nack({ ...held, token: x } as Anything, 'a'),
    () => puller.nack({ ...held, retry: x } as Anything, 'a'),
    () => puller.nack(held as Anything, x),
    () => puller.nack(held as Anything, 'a', x),
  ],
  extend: (x) => [() => puller.extend(held as Anything, x)],
  release: (x) => [() => puller.release({ ...held, token: x } as Anything)],
  peek: (x) => [() => puller.peek(x), () => puller.peek('default', x)],
  length: (x) => [() => puller.length(x)],
  scan: (x) => ['queue', 'after', 'limit'].map((name) => () => puller.scan({ [name]: x })),
  close: () => [],
};

/** Returns the paths of the functions of an object, and of the objects in it. */
function paths(object: object, prefix = ''): readonly string[] {
  const isPlain = Object.getPrototypeOf(object) === Object.prototype;
  const names = isPlain
    ? Object.keys(object)
    : Object.getOwnPropertyNames(Object.getPrototypeOf(object)).filter((name) => name !== 'constructor');
  return names.flatMap((name) => {
    const value: unknown = (object as Readonly<Record<string, unknown>>)[name];
    if (typeof value === 'function') return [prefix + name];
    return typeof value === 'object' && value !== null ? paths(value, `${prefix}${name}.`) : [];
  });
}

/**
 * Returns a problem; undefined if the value was accepted or properly refused. A hostile text must be refused
 * by an error of pgqueue or PostgreSQL. A value that types would refuse may also cause a plain TypeError, but
 * must cause an error.
 */
async function oddly(call: () => Promise<unknown>, isText: boolean): Promise<string | undefined> {
  try {
    await call();
    return undefined;
  } catch (error) {
    if (error instanceof PgQueueError && error.code !== 'invariant') return undefined;
    if (/^2[23]/.test(sqlState(error) ?? '')) return undefined;
    if (!isText && error instanceof Error && sqlState(error) === undefined) return undefined;
    return error instanceof Error ? `${error.name} ${sqlState(error) ?? ''} ${error.message}` : 'no error';
  }
}

describe.each([
  ['operator', ofOperator, () => operator, small],
  ['producer', ofProducer, () => producer, Object.values(hostileValues)],
  ['puller', ofPuller, () => puller, small],
] as const)('%s', (_name, calls, object, values) => {
  test('every method is tried', () => {
    expect(Object.keys(calls).toSorted()).toEqual(paths(object()).toSorted());
  });

  test.each(Object.keys(calls))('%s', async (method) => {
    const odd = new Set<string>();
    const takesNothing = calls[method]?.length === 0;
    for (const value of takesNothing ? [''] : [...hostileTexts, ...values]) {
      for (const [index, call] of (calls[method]?.(value) ?? []).entries()) {
        const heard = await oddly(call, typeof value === 'string');
        if (heard !== undefined) odd.add(`${index}: ${heard.slice(0, 200)}`);
      }
    }
    expect([...odd]).toEqual([]);
    expect(lost).toEqual([]);
  });
});

test('no invariant is broken after all of that', async () => {
  expect((await breaches(database)).filter(({ count }) => count > 0)).toEqual([]);
  expect((await database.query('select from pgqueue.queue', [])).length).toBeGreaterThan(100);
});
