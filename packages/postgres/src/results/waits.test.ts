import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Waited, WaitsParts } from './waits.ts';
import { Waits } from './waits.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

interface World {
  readonly waits: Waits<string>;
  /** States of jobs, as the next look reads them. */
  readonly states: Map<string, string>;
  /** Time and number of ids of each look. */
  readonly looks: (readonly [atMs: number, ids: number])[];
  /** Numbers of the looks that were exact, from 0. */
  readonly exact: number[];
  readonly waiting: boolean[];
}

function world({
  tookMs = 0,
  ...parts
}: Partial<WaitsParts<string>> & { readonly tookMs?: number } = {}): World {
  const states = new Map<string, string>();
  const looks: (readonly [number, number])[] = [];
  const exact: number[] = [];
  const waiting: boolean[] = [];
  const beganAt = performance.now();
  const waits = new Waits<string>({
    look: async (ids, isExact) => {
      if (isExact) exact.push(looks.length);
      looks.push([Math.round(performance.now() - beganAt), ids.length]);
      const asked = new Set(ids);
      const found = new Map([...states].filter(([id]) => asked.has(id)));
      if (tookMs > 0) await new Promise((resolve) => setTimeout(resolve, tookMs));
      return found;
    },
    hasEnded: (state) => state === 'done',
    onWaiting: (one) => waiting.push(one),
    ...parts,
  });
  return { waits, states, looks, exact, waiting };
}

const transient = Object.assign(new Error('the server restarts'), { code: '57P03' });
const times = ({ looks }: World): readonly number[] => looks.map(([atMs]) => atMs);

test('a job that has ended is answered by the first look', async () => {
  const { waits, states, looks, waiting } = world();
  states.set('a', 'done');
  const waited = waits.wait('a', 1_000);
  await vi.advanceTimersByTimeAsync(1);
  expect(await waited).toEqual({ kind: 'ended', state: 'done' });
  expect([looks, waiting, vi.getTimerCount()]).toEqual([[[0, 1]], [], 0]);
});

test('looks come ever less often, down to once a second', async () => {
  const here = world();
  here.states.set('a', 'pending');
  const waited = here.waits.wait('a', 10_000);
  await vi.advanceTimersByTimeAsync(5_000);
  const pauses = times(here).map((atMs, index) => atMs - (times(here)[index - 1] ?? 0));
  expect(pauses[1]).toBe(25);
  expect(pauses.slice(2).every((ms, index) => ms >= (pauses[index + 1] ?? 0) && ms <= 1_001)).toBe(true);
  expect(pauses.at(-1)).toBeGreaterThanOrEqual(1_000);
  here.states.set('a', 'done');
  await vi.advanceTimersByTimeAsync(1_001);
  expect(await waited).toEqual({ kind: 'ended', state: 'done' });
  expect([here.waiting, vi.getTimerCount()]).toEqual([[true, false], 0]);
});

test('1,000 waits that come one by one share a few looks', async () => {
  const here = world({ tookMs: 2 });
  const all: Promise<Waited<string>>[] = [];
  for (let n = 0; n < 1_000; n += 1) {
    here.states.set(`${n}`, 'pending');
    all.push(here.waits.wait(`${n}`, 60_000));
    await vi.advanceTimersByTimeAsync(1);
  }
  expect(here.looks.length).toBeLessThan(101);
  const before = here.looks.length;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(here.looks.length - before).toBeLessThan(50);
  for (const id of here.states.keys()) here.states.set(id, 'done');
  await vi.advanceTimersByTimeAsync(2_000);
  expect(new Set((await Promise.all(all)).map(({ kind }) => kind))).toEqual(new Set(['ended']));
});

test('more than 1,000 waits take several looks', async () => {
  const { waits, states, looks } = world();
  const all = Array.from({ length: 2_500 }, (_, n) => {
    states.set(`${n}`, 'done');
    return waits.wait(`${n}`, 1_000);
  });
  await vi.advanceTimersByTimeAsync(50);
  await Promise.all(all);
  expect(looks.map(([, ids]) => ids)).toEqual([1_000, 1_000, 500]);
});

test('a hint leads to a look at once, also one that comes during a look', async () => {
  const { waits, states, looks } = world({ tookMs: 5 });
  states.set('a', 'pending');
  const waited = waits.wait('a', 60_000);
  await vi.advanceTimersByTimeAsync(2_000);
  const before = looks.length;
  waits.hint(['other']);
  await vi.advanceTimersByTimeAsync(3);
  expect(looks.length).toBe(before);
  waits.hint(['a']);
  await vi.advanceTimersByTimeAsync(1);
  expect(looks.length).toBe(before + 1);
  states.set('a', 'done'); // after it was read
  waits.hint(['a']);
  await vi.advanceTimersByTimeAsync(12);
  expect(await waited).toEqual({ kind: 'ended', state: 'done' });
  expect(looks.length).toBe(before + 2);
});

test('hints that name no job take a bounded share of the time', async () => {
  const { waits, states, looks } = world({ tookMs: 10 });
  states.set('a', 'pending');
  const waited = waits.wait('a', 600_000);
  await vi.advanceTimersByTimeAsync(5_000);
  const before = looks.length;
  for (let ms = 0; ms < 1_000; ms += 1) {
    waits.hint();
    await vi.advanceTimersByTimeAsync(1);
  }
  const made = looks.length - before;
  expect([made > 8, made < 14]).toEqual([true, true]);
  states.set('a', 'done');
  waits.hint();
  await vi.advanceTimersByTimeAsync(110);
  expect((await waited).kind).toBe('ended');
  waits.hint();
  waits.hint(['a']);
  expect(vi.getTimerCount()).toBe(0);
});

test('a wait looks a last time at its end, and 0 is one look', async () => {
  const { waits, states, looks, exact } = world();
  states.set('a', 'pending');
  const waited = waits.wait('a', 700);
  await vi.advanceTimersByTimeAsync(699);
  states.set('a', 'done');
  await vi.advanceTimersByTimeAsync(5);
  expect(await waited).toEqual({ kind: 'ended', state: 'done' });
  expect(looks.at(-1)?.[0]).toBeGreaterThanOrEqual(700);
  expect(exact).toEqual([looks.length - 1]);
  states.set('b', 'running');
  const now = waits.wait('b', 0);
  await vi.advanceTimersByTimeAsync(20);
  expect(await now).toEqual({ kind: 'timeout', state: 'running', error: undefined });
});

test('a job that is gone: it never was, or was there before', async () => {
  const { waits, states } = world();
  states.set('b', 'pending');
  const waited = [waits.wait('a', 1_000), waits.wait('b', 1_000)];
  await vi.advanceTimersByTimeAsync(20);
  states.clear();
  await vi.advanceTimersByTimeAsync(50);
  expect(await Promise.all(waited)).toEqual([
    { kind: 'gone', before: undefined },
    { kind: 'gone', before: 'pending' },
  ]);
});

test('a wait that begins during a look does not get the answer that its job is in no table', async () => {
  const { waits, states } = world({ tookMs: 50 });
  const early = waits.wait('a', 1_000);
  await vi.advanceTimersByTimeAsync(10);
  states.set('a', 'done'); // committed meanwhile
  const late = waits.wait('a', 1_000);
  await vi.advanceTimersByTimeAsync(200);
  expect([(await early).kind, (await late).kind]).toEqual(['gone', 'ended']);
});

test('waits outlast errors that pass, and end in time even if none does', async () => {
  const retries: number[] = [];
  let down = true;
  const { waits, states } = world({
    look: (ids) =>
      down ? Promise.reject(transient) : Promise.resolve(new Map(ids.map((id) => [id, 'done']))),
    onError: (_error, retryMs) => retries.push(retryMs),
  });
  states.set('a', 'pending');
  const [short, long] = [waits.wait('a', 3_000), waits.wait('b', 60_000)];
  await vi.advanceTimersByTimeAsync(4_010);
  expect(await short).toEqual({ kind: 'timeout', state: undefined, error: transient });
  expect([retries.length > 3, retries.length < 20]).toEqual([true, true]);
  down = false;
  await vi.advanceTimersByTimeAsync(1_010);
  expect((await long).kind).toBe('ended');
});

test('a look that never answers holds up no wait for longer than a second', async () => {
  const { waits } = world({ look: () => new Promise(() => {}) });
  const waited = waits.wait('a', 500);
  await vi.advanceTimersByTimeAsync(1_501);
  expect(await waited).toEqual({ kind: 'timeout', state: undefined, error: undefined });
});

test('an error that does not pass rejects the waits that it met', async () => {
  const { waits, waiting } = world({ look: () => Promise.reject(new Error('permission denied')) });
  const waited = waits.wait('a', 500).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(5);
  expect(await waited).toMatchObject({ message: 'permission denied' });
  expect([waiting, vi.getTimerCount()]).toEqual([[], 0]);
});

test('stop rejects all waits, and later ones', async () => {
  const { waits, states, waiting } = world();
  states.set('a', 'pending');
  const waited = Promise.allSettled([waits.wait('a', 500), waits.wait('a', 900)]);
  await vi.advanceTimersByTimeAsync(30);
  const closed = new Error('closed');
  waits.stop(closed);
  expect(await waited).toEqual([1, 2].map(() => ({ status: 'rejected', reason: closed })));
  await expect(waits.wait('a', 5)).rejects.toThrow('closed');
  expect([waiting, vi.getTimerCount()]).toEqual([[true, false], 0]);
});

test('a wait that is aborted leaves at once, and others for the same job stay', async () => {
  const here = world({ tookMs: 5 });
  here.states.set('a', 'pending');
  const reason = new Error('the client has gone');
  const [first, second] = [new AbortController(), new AbortController()];
  const waits = [
    here.waits.wait('a', 60_000, first.signal),
    here.waits.wait('a', 60_000, second.signal),
    here.waits.wait('a', 60_000, new AbortController().signal),
  ] as const;
  const left = Promise.allSettled([waits[0], waits[1]]);
  await vi.advanceTimersByTimeAsync(1_000);
  first.abort(reason);
  await vi.advanceTimersByTimeAsync(1_000);
  second.abort(reason);
  expect(await left).toEqual([
    { status: 'rejected', reason },
    { status: 'rejected', reason },
  ]);
  here.states.set('a', 'done');
  await vi.advanceTimersByTimeAsync(1_100);
  expect(await waits[2]).toEqual({ kind: 'ended', state: 'done' });
  expect([here.waiting, vi.getTimerCount()]).toEqual([[true, false], 0]);
});

test('the last wait that is aborted ends the looks, also within one', async () => {
  const here = world({ tookMs: 5 });
  here.states.set('a', 'pending');
  const gone = new AbortController();
  const left = here.waits.wait('a', 60_000, gone.signal).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(1);
  gone.abort();
  expect(await left).toMatchObject({ name: 'AbortError' });
  await vi.advanceTimersByTimeAsync(60_000);
  expect([here.looks.length, here.waiting, vi.getTimerCount()]).toEqual([1, [], 0]);
  await expect(here.waits.wait('a', 1, gone.signal)).rejects.toThrow('aborted');
});
