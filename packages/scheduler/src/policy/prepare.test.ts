import type { Json, Leading, PgQueueEvent, Preparation } from '@pgqueue/core';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createFaults } from './faults.ts';
import type { Preparing } from './prepare.ts';
import { createPreparing } from './prepare.ts';
import { aWhole, patientMs } from '../testing/planning.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

interface Prepares {
  readonly preparing: Preparing;
  readonly events: readonly PgQueueEvent[];
  readonly messages: () => readonly string[];
  readonly prepared: () => unknown;
  readonly heard: () => number;
}

function prepares(
  fetch: Preparation['fetch'],
  {
    budgetMs = patientMs,
    leading,
    ...options
  }: Partial<Preparation> & {
    readonly budgetMs?: number;
    readonly leading?: (part: string) => Leading | undefined;
  } = {},
): Prepares {
  const events: PgQueueEvent[] = [];
  const clock = (): number => performance.now();
  const faults = createFaults((event) => events.push(event), clock);
  let heard = 0;
  const preparing = createPreparing({
    policy: aWhole({ prepare: [{ name: 'prices', everyMs: 10_000, deadlineMs: 500, fetch, ...options }] }),
    budgetMs,
    faults,
    clock,
    ...(leading === undefined ? {} : { leading }),
    onPrepared: () => {
      heard += 1;
    },
  });
  return {
    preparing,
    events,
    messages: () => faults.current().map(({ part, message }) => `${part}: ${message}`),
    prepared: () => preparing.prepared(1_000_000)['prices'],
    heard: () => heard,
  };
}

const never = (): Promise<Json> => new Promise(() => {});

test('the value of the last fetch is there from its first on, and says how old it is', async () => {
  let price = 0;
  const { preparing, prepared, heard } = prepares(() => Promise.resolve({ price: (price += 1) }));
  expect(prepared()).toBeUndefined();
  preparing.start();
  await vi.advanceTimersByTimeAsync(3);
  expect(preparing.prepared(1_000_003)).toEqual({ prices: { value: { price: 1 }, atMs: 1_000_000 } });
  await vi.advanceTimersByTimeAsync(9_000);
  expect(preparing.prepared(1_009_003)['prices']?.atMs).toBe(1_000_000);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(prepared()).toMatchObject({ value: { price: 2 } });
  expect(heard()).toBe(2);
  await preparing.stop();
});

test('a promise that comes after the time has a listener, so that its rejection does not end the process', async () => {
  const then = vi.fn<() => void>();
  // a call of native code, which nothing can end early, and the value of which is the promise
  // oxlint-disable-next-line unicorn/no-thenable
  const late = Object.assign(new Uint8Array(2 ** 27), { then });
  // on a busy machine the time may be over before the call begins
  for (let tries = 1; tries <= 50 && then.mock.calls.length === 0; tries += 1) {
    const { preparing, messages } = prepares(() => late.fill(1) as unknown as Promise<Json>, { budgetMs: 1 });
    preparing.start();
    await vi.advanceTimersByTimeAsync(1);
    expect(messages()).toEqual(['prices: fetch did not return a promise within 1 ms']);
    await preparing.stop();
  }
  expect(then).toHaveBeenCalledOnce();
});

test.each<[string, Preparation['fetch'], RegExp]>([
  ['fails', () => Promise.reject(new Error('no prices')), /^prices: no prices$/],
  ['throws at once', () => [].reduce((_, one) => one), /Reduce of empty array/],
  // oxlint-disable-next-line typescript/prefer-promise-reject-errors
  ['rejects with nothing', () => Promise.reject(), /threw undefined/],
  [
    'loops before it waits',
    () => {
      for (;;);
    },
    /did not return a promise within 2000 ms/,
  ],
  ['does not heed its signal', never, /not fetched within 500 ms/],
  [
    'fetches what is no JSON',
    () => Promise.resolve({ at: new Date(0) as unknown as Json }),
    /at at: an object of a class/,
  ],
])('a fetch that %s is reported, and keeps the last value', async (_, fetch, message) => {
  let fails = false;
  const { preparing, prepared, messages, events } = prepares(
    (signal) => (fails ? fetch(signal) : Promise.resolve(1)),
    // real time, of which a busy machine may take much before the first fetch has returned
    { everyMs: 1_000, budgetMs: 2_000 },
  );
  preparing.start();
  await vi.advanceTimersByTimeAsync(1);
  fails = true;
  await vi.advanceTimersByTimeAsync(1_999);
  expect(prepared()).toMatchObject({ value: 1 });
  expect(messages()).toEqual([expect.stringMatching(message)]);
  expect(events[0]).toMatchObject({
    type: 'policy.prepare_failed',
    policy: 'whole',
    part: 'prices',
    retryMs: 1_000,
  });
  await preparing.stop();
});

test('a fetch whose time is over is aborted, and one that does not heed it is not started twice at once', async () => {
  const signals: AbortSignal[] = [];
  let resolve: (value: Json) => void = () => {};
  const { preparing, prepared, messages } = prepares(
    (signal) => {
      signals.push(signal);
      return new Promise((resolved) => {
        resolve = resolved;
      });
    },
    { everyMs: 1_000 },
  );
  preparing.start();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  expect(messages()).toEqual([
    'prices: the last fetch has still not ended, though it was aborted: it does not heed its signal',
  ]);
  resolve(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(prepared()).toBeUndefined();
  await vi.advanceTimersByTimeAsync(600);
  expect(signals).toHaveLength(2);
  resolve(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(prepared()).toMatchObject({ value: 2 });
  await preparing.stop();
});

test('a fetch that fails is tried again after a second, then after ever longer, at its usual pace at most', async () => {
  const at: number[] = [];
  const { preparing } = prepares(
    () => {
      at.push(performance.now());
      return Promise.reject(new Error('no'));
    },
    { everyMs: 6_000 },
  );
  preparing.start();
  await vi.advanceTimersByTimeAsync(24_000);
  const pauses = at.slice(1).map((time, index) => Math.round(time - (at[index] ?? 0)));
  expect(pauses).toEqual([1_000, 2_000, 4_000, 6_000, 6_000]);
  await preparing.stop();
});

test('stopped, it aborts what is under way, fetches no more, and begins anew when it is started', async () => {
  let fetches = 0;
  let last: AbortSignal | undefined;
  const { preparing, prepared, events } = prepares((signal) => {
    fetches += 1;
    last = signal;
    return fetches === 2 ? never() : Promise.resolve(fetches);
  });
  preparing.start();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(fetches).toBe(2);
  await preparing.stop();
  expect(last?.aborted).toBe(true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(fetches).toBe(2);
  expect(events).toEqual([]);
  preparing.start();
  expect(prepared()).toBeUndefined();
  await preparing.stop();
});

test('what was fetched is read-only: every plan sees it', async () => {
  const { preparing, prepared } = prepares(() => Promise.resolve({ a: [1] }));
  preparing.start();
  await vi.advanceTimersByTimeAsync(1);
  expect(() => (prepared() as { value: { a: number[] } }).value.a.push(2)).toThrow(/not extensible/);
  await preparing.stop();
});

test('a value is dropped when its time is over, by the monotonic clock, and comes again with the next fetch', async () => {
  let fails = false;
  const { preparing, prepared } = prepares(
    () => (fails ? Promise.reject(new Error('no')) : Promise.resolve(1)),
    {
      everyMs: 1_000,
      validMs: 4_500,
    },
  );
  preparing.start();
  await vi.advanceTimersByTimeAsync(2_100);
  fails = true;
  await vi.advanceTimersByTimeAsync(4_300);
  expect(prepared()).toMatchObject({ value: 1 });
  await vi.advanceTimersByTimeAsync(150);
  expect(prepared()).toBeUndefined();
  fails = false;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(prepared()).toMatchObject({ value: 1 });
  await preparing.stop();
});

test('a fetch is told the leader and the state of its part; that of a shadow is told nothing', async () => {
  const told: unknown[] = [];
  const fetch: Preparation['fetch'] = (_signal, leading) => {
    told.push(leading);
    return Promise.resolve(null);
  };
  const leads = prepares(fetch, { leading: (part) => ({ leader: 'l', epoch: 7, state: `of ${part}` }) });
  leads.preparing.start();
  await vi.advanceTimersByTimeAsync(1);
  await leads.preparing.stop();
  const shadow = prepares(fetch);
  shadow.preparing.start();
  await vi.advanceTimersByTimeAsync(1);
  await shadow.preparing.stop();
  expect(told).toEqual([{ leader: 'l', epoch: 7, state: 'of prices' }, undefined]);
});
