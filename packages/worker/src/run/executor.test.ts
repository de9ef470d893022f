import { AsyncLocalStorage } from 'node:async_hooks';
import type { PgQueueEvent } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { defineTask, implement } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import type { Attempt } from '../attempt/attempt.ts';
import { Bag } from '../lease/bag.ts';
import { createBatch } from '../attempt/batch.ts';
import type { Unit } from '../lease/unit.ts';
import { createExecutor } from './executor.ts';
import { createFloating } from '../attempt/unhandled-rejections.ts';
import { createIsolation } from '../isolation/isolation.ts';
import { createSettler, noHints } from '../settle/settler.ts';

const anything = {
  '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) },
} as const;
const task = defineTask({ name: 'task', payload: anything });

function job(id: string, payload: unknown = {}): ClaimedJob {
  const common = {
    token: 'token',
    position: 256,
    queue: 'q',
    task: 'task',
    key: '',
    priority: 0,
    attributes: {},
  };
  const counts = {
    payloadVersion: 1,
    tries: 0,
    maxTries: 20,
    crashes: 0,
    retry: null,
    trace: null,
    checkpoint: null,
  };
  return { ...common, ...counts, id, payload, created: new Date(), leaseMs: 60_000, bundle: null };
}

/**
 * Runs a batch with these payloads; the jobs are `a`, `b` and so on. Returns the statements that the database
 * received, and the observed events.
 * @param options `apart`: each job has a slot of its own, and all begin in one turn
 */
async function run(
  handler: (payload: unknown) => unknown,
  {
    listens = false,
    payloads = [1, 2, 3],
    apart = false,
    floating = 'fail',
  }: {
    readonly listens?: boolean;
    readonly payloads?: readonly unknown[];
    readonly apart?: boolean;
    readonly floating?: 'fail' | 'crash';
  },
) {
  const asked: { readonly statement: string; readonly values: readonly unknown[] }[] = [];
  const events: PgQueueEvent[] = [];
  const database = {
    schema: 's',
    query: (text: string, values: readonly unknown[]) => {
      const statement = /s\.(\w+)\(/.exec(text)?.[1] ?? '';
      asked.push({ statement, values });
      if (statement === 'settle_rows') return Promise.resolve([{ settled: [256, 300] }]);
      return Promise.resolve(statement === 'take_out' ? [{ answer: 300 }] : []);
    },
  } as unknown as Target;
  const observe = (event: PgQueueEvent): void => void events.push(event);
  const settler = createSettler({ database, observe, hints: noHints, onAccepted: () => {} });
  const executor = createExecutor({
    handlers: new Map([['task', implement(task, handler)]]),
    attempts: new Bag<Attempt>(),
    settler,
    hints: noHints,
    queueHints: noHints,
    isolation: createIsolation({ codec: undefined, observe }),
    observe,
    blocked: { call: (_job, call, ...given) => call(...given) },
    floating: createFloating(floating),
    database,
    transactions: { run: () => Promise.reject(new Error('none')), destroy: () => {} },
    codec: undefined,
    logger: undefined,
    onNext: () => {},
    listens: () => listens,
  });
  const [first, ...others] = payloads.map((payload, index) => job('abc'[index] ?? '', payload));
  if (first === undefined) throw new Error('no payload');
  const unit: Unit = [first, ...others];
  if (!apart) createBatch({ database, settler }, unit, unit.length);
  const units: readonly Unit[] = apart ? unit.map((one) => [one]) : [unit];
  await Promise.all(units.map((one) => executor.run(one, { claimedAt: performance.now() })));
  await settler.idle();
  return { asked, events: events.map((event) => event.type), told: events };
}

test('a batch of which every job is done is settled as one, by its run times and results alone', async () => {
  const { asked } = await run((payload) => (payload === 2 ? { n: 2 } : undefined), { listens: false });
  expect(asked.map(({ statement }) => statement)).toEqual(['settle_rows']);
  const [positions, tokens, sizes, busy, results] = asked[0]?.values ?? [];
  expect([positions, tokens, sizes]).toEqual(['{256}', '{token}', '{3}']);
  expect(busy).toMatch(/^\{\d+e-3,\d+e-3,\d+e-3\}$/);
  expect(results).toEqual([null, '{"n":2}', null]);
});

test('jobs that begin and are done are told to who listens, and to nobody else', async () => {
  const heard = await run(() => {}, { listens: true });
  const [started, settled] = ['job.started', 'job.settled'];
  expect(heard.events).toEqual([started, started, started, settled, settled, settled]);
  expect(heard.told.at(-1)).toMatchObject({ job: 'c', task: 'task', verdict: 'done' });
  expect((await run(() => {}, { listens: false })).events).toEqual([]);
});

test('those that end otherwise are taken out, and the rest is settled as one', async () => {
  const { asked } = await run(
    (payload) => {
      if (payload === 2) throw new Error('no');
    },
    { listens: false },
  );
  expect(asked.map(({ statement }) => statement)).toEqual(['take_out', 'settle_rows', 'settle']);
  expect(asked[0]?.values).toEqual([256, 'token', ['b']]);
  expect(asked[1]?.values.slice(0, 3)).toEqual(['{300}', '{token}', '{2}']);
});

test('a result that can’t be stored is an outcome of its own: the others are settled as one', async () => {
  const { asked } = await run((payload) => (payload === 1 ? 1n : undefined), { listens: false });
  expect(asked.map(({ statement }) => statement)).toEqual(['take_out', 'settle_rows', 'settle']);
  expect(JSON.stringify(asked[2]?.values)).toContain('pgqueue_error');
});

test.each([
  ['a batch', 'fail', false],
  ['a batch', 'crash', false],
  ['slots of their own', 'fail', true],
  ['slots of their own', 'crash', true],
] as const)(
  'in %s, a context that a handler enters stays its own; floatingRejections: %s',
  async (_in, floating, apart) => {
    const tenant = new AsyncLocalStorage<unknown>();
    const seen: unknown[] = [];
    const handler = async (payload: unknown): Promise<void> => {
      const before = tenant.getStore();
      if (payload !== 2) tenant.enterWith(payload);
      await Promise.resolve();
      seen.push({ payload, before, after: tenant.getStore() });
    };
    await run(handler, { floating, apart });
    expect(seen).toEqual(
      [1, 2, 3].map((payload) => ({
        payload,
        before: undefined,
        after: payload === 2 ? undefined : payload,
      })),
    );
    expect(tenant.getStore()).toBeUndefined();
  },
);
