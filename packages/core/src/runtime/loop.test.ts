import { expect, test } from 'vitest';
import { retryPauseMs, startLoop } from './loop.ts';

/** Resolves when `step` has been called n times. */
function counted(delayMs: number): {
  readonly step: () => Promise<number>;
  readonly reached: (n: number) => Promise<void>;
} {
  let calls = 0;
  const waiting = new Map<number, () => void>();
  return {
    step: () => {
      calls += 1;
      waiting.get(calls)?.();
      return Promise.resolve(delayMs);
    },
    reached: (n) => (calls >= n ? Promise.resolve() : new Promise((resolve) => void waiting.set(n, resolve))),
  };
}

const neverFails = (error: unknown): number => {
  throw error;
};

test('a wake ends a long wait', async () => {
  const { step, reached } = counted(3_600_000);
  const loop = startLoop({ step, failed: neverFails });
  await reached(1);
  loop.wake();
  await expect(reached(2)).resolves.toBeUndefined();
  await loop.stop();
});

test('a wake during a step is not lost: the next step follows at once', async () => {
  let steps = 0;
  const second = Promise.withResolvers<void>();
  const loop = startLoop({
    step: () => {
      steps += 1;
      if (steps === 1) loop.wake();
      if (steps === 2) second.resolve();
      return Promise.resolve(3_600_000);
    },
    failed: neverFails,
  });
  await second.promise;
  await loop.stop();
  expect(steps).toBe(2);
});

test('steps never overlap, and stop waits for the one under way', async () => {
  const gate = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  let running = 0;
  let most = 0;
  const loop = startLoop({
    step: async () => {
      running += 1;
      most = Math.max(most, running);
      started.resolve();
      await gate.promise;
      running -= 1;
      return 0;
    },
    failed: neverFails,
  });
  await started.promise;
  loop.wake();
  const stopped = loop.stop();
  gate.resolve();
  await stopped;
  expect([running, most]).toEqual([0, 1]);
});

test('a step that throws is reported with the failures in a row, and tried again', async () => {
  const seen: number[] = [];
  let steps = 0;
  const done = Promise.withResolvers<void>();
  const loop = startLoop({
    step: () => {
      steps += 1;
      if (steps === 3) return Promise.resolve(0);
      if (steps === 5) done.resolve();
      return Promise.reject(new Error(`step ${steps}`));
    },
    failed: (_error, failures) => {
      seen.push(failures);
      return 1;
    },
  });
  await done.promise;
  await loop.stop();
  expect(seen.slice(0, 4)).toEqual([1, 2, 1, 2]);
});

test('a loop says how long a step hangs, and nothing of a wait that is meant', async () => {
  const hung = Promise.withResolvers<number>();
  let steps = 0;
  const second = Promise.withResolvers<void>();
  const loop = startLoop({
    step: () => {
      steps += 1;
      if (steps === 1) return Promise.resolve(3_600_000);
      second.resolve();
      return hung.promise;
    },
    failed: neverFails,
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(loop.stuckMs()).toBe(0);
  loop.wake();
  await second.promise;
  const began = performance.now();
  while (performance.now() - began < 20);
  expect(loop.stuckMs()).toBeGreaterThanOrEqual(20);
  hung.resolve(0);
  await loop.stop();
  expect(loop.stuckMs()).toBe(0);
});

test('the pause between failures grows, is bounded, and varies', () => {
  expect(retryPauseMs(1, 5_000, () => 0)).toBe(50);
  expect(retryPauseMs(1, 5_000, () => 1)).toBe(100);
  expect(retryPauseMs(100, 5_000, () => 1)).toBe(5_000);
});
