import { expect, test, vi } from 'vitest';
import { shareReading } from './share.ts';

/** A reading that lasts until `end`, by the test's own clock. */
function readings(): {
  readonly read: () => Promise<number>;
  readonly count: () => number;
  readonly end: (afterMs: number, error?: Error) => void;
  readonly pass: (ms: number) => void;
} {
  let now = 0;
  let count = 0;
  let settle: ((error?: Error) => void) | undefined;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  return {
    read: () => {
      count += 1;
      const mine = count;
      return new Promise((resolve, reject) => {
        settle = (error): void => (error === undefined ? resolve(mine) : reject(error));
      });
    },
    count: () => count,
    end: (afterMs, error) => {
      now += afterMs;
      settle?.(error);
    },
    pass: (ms) => {
      now += ms;
    },
  };
}

test('who asks at the same time, or soon after, gets the same reading', async () => {
  const { read, count, end, pass } = readings();
  const shared = shareReading(read, { everyMs: 100 });
  const both = [shared(), shared()];
  end(0.5);
  expect(await Promise.all(both)).toEqual([1, 1]);
  pass(99);
  expect(await shared()).toBe(1);
  pass(2);
  const next = shared();
  expect(count()).toBe(2);
  end(0.5);
  expect(await next).toBe(2);
});

test('a slow reading is made the less often, but is made', async () => {
  const { read, count, end, pass } = readings();
  const shared = shareReading(read, { everyMs: 100, share: 0.01, mostMs: 30_000 });
  const first = shared();
  end(50);
  await first;
  pass(4_990);
  await shared();
  expect(count()).toBe(1);
  pass(20);
  const slow = shared();
  end(10_000);
  await slow;
  pass(30_001);
  void shared();
  expect(count()).toBe(3);
});

test('one that fails is told, and made again for the next who asks', async () => {
  const { read, end } = readings();
  const shared = shareReading(read);
  const failing = shared();
  end(1, new Error('gone'));
  await expect(failing).rejects.toThrow('gone');
  const next = shared();
  end(1);
  expect(await next).toBe(2);
});
