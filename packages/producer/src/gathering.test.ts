import { expect, test } from 'vitest';
import type { FailedCall } from './gathering.ts';
import { gathering } from './gathering.ts';

const unbounded = {
  callsMax: 1,
  slowMs: 60_000,
  countMax: 100,
  sizeMax: Infinity,
  sizeOf: () => 1,
  alone: async (item: number, failed: FailedCall) => {
    await turn();
    if (failed.several) return item * 100;
    throw failed.error;
  },
};

/** Calls that end when they are told to, with ten times each number. */
function calls(refused: (items: readonly number[]) => boolean = () => false): {
  readonly send: (items: readonly number[]) => Promise<readonly number[]>;
  readonly sent: (readonly number[])[];
  readonly end: () => Promise<void>;
} {
  const sent: (readonly number[])[] = [];
  const ends: (() => void)[] = [];
  return {
    sent,
    send: async (items) => {
      sent.push(items);
      await new Promise<void>((resolve) => ends.push(resolve));
      if (refused(items)) throw new Error(`refused ${items.join(' ')}`);
      return items.map((item) => item * 10);
    },
    end: async () => {
      ends.shift()?.();
      await turn();
    },
  };
}

/** The event loop's next turn but one. */
async function turn(): Promise<void> {
  for (let n = 0; n < 2; n += 1) await new Promise((resolve) => setImmediate(resolve));
}

test('items of one turn go together, and those that come meanwhile go next', async () => {
  const { send, sent, end } = calls();
  const add = gathering({ ...unbounded, send });
  const first = Promise.all([add(1), add(2)]);
  await turn();
  const second = Promise.all([add(3), add(4), add(5)]);
  await turn();
  expect(sent).toEqual([[1, 2]]);
  await end();
  expect(await first).toEqual([10, 20]);
  expect(sent).toEqual([
    [1, 2],
    [3, 4, 5],
  ]);
  await end();
  expect(await second).toEqual([30, 40, 50]);
});

test('a call has no more than so many items, and no more than one that is too large', async () => {
  const { send, sent, end } = calls();
  const add = gathering({ ...unbounded, send, countMax: 3, sizeMax: 100, sizeOf: (item) => item });
  const all = Promise.all([1, 2, 3, 4, 99, 500, 2].map(add));
  await turn();
  for (let n = 0; n < 5; n += 1) await end();
  expect(sent).toEqual([[1, 2, 3], [4], [99], [500], [2]]);
  expect(await all).toEqual([10, 20, 30, 40, 990, 5_000, 20]);
});

test('items of a call that fails are taken over one by one', async () => {
  const { send, sent, end } = calls((items) => items.includes(2));
  const add = gathering({ ...unbounded, send });
  const several = Promise.all([add(1), add(2), add(3)]);
  await turn();
  await end();
  expect(await several).toEqual([100, 200, 300]);
  const single = add(2);
  single.catch(() => {});
  await turn();
  await end();
  await expect(single).rejects.toThrow('refused 2');
  expect(sent).toEqual([[1, 2, 3], [2]]);
});

test('a call that takes long holds up nobody', async () => {
  const { send, sent, end } = calls();
  const add = gathering({ ...unbounded, send, slowMs: 1 });
  const first = add(1);
  await turn();
  const second = add(2);
  while (sent.length < 2) await turn();
  expect(sent).toEqual([[1], [2]]);
  await end();
  await end();
  expect(await Promise.all([first, second])).toEqual([10, 20]);
  const third = Promise.all([add(3), add(4)]);
  await turn();
  await end();
  expect(await third).toEqual([30, 40]);
});

test('so many calls go at a time', async () => {
  const { send, sent, end } = calls();
  const add = gathering({ ...unbounded, send, callsMax: 2 });
  const all = [add(1)];
  await turn();
  all.push(add(2));
  await turn();
  all.push(add(3), add(4));
  await turn();
  expect(sent).toEqual([[1], [2]]);
  await end();
  expect(sent).toEqual([[1], [2], [3, 4]]);
  await end();
  await end();
  expect(await Promise.all(all)).toEqual([10, 20, 30, 40]);
});

test('an item that comes after all have ended goes at once', async () => {
  const { send, sent, end } = calls();
  const add = gathering({ ...unbounded, send });
  const first = add(1);
  await turn();
  await end();
  expect(await first).toBe(10);
  const second = add(2);
  await turn();
  expect(sent).toEqual([[1], [2]]);
  await end();
  expect(await second).toBe(20);
});
