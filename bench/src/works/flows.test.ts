import { expect, test } from 'vitest';
import { treeOf } from '../peers/bullmq-tree.ts';
import { payloadOf } from '../load.ts';
import { outOfOrder, waitsOf } from './chains.ts';
import type { Tried } from './flow-rates.ts';
import { areEnough, nextRate } from './flow-rates.ts';

/** Tries rates until the highest is known, on a system that sustains up to `limit`. */
function search(limit: number): readonly number[] {
  const tried: Tried[] = [];
  for (let rate: number | undefined = 1_000; rate !== undefined; rate = nextRate(tried))
    tried.push({ rate, sustained: rate <= limit });
  return tried.map(({ rate }) => rate);
}

test('rates go up until one is not sustained, or down until one is, and then between', () => {
  expect(search(1_700)).toEqual([1_000, 1_500, 2_250, 1_837, 1_660]);
  expect(search(300)).toEqual([1_000, 500, 250, 354, 297]);
  expect(search(0)).toHaveLength(7);
  expect(search(Infinity)).toHaveLength(7);
});

test('a rate that failed although a higher one did not is no bound', () => {
  const tried = [
    { rate: 1_000, sustained: false },
    { rate: 500, sustained: false },
    { rate: 250, sustained: true },
    { rate: 600, sustained: true },
  ];
  expect(nextRate(tried)).toBe(775);
});

test('small numbers may miss more by chance than large ones', () => {
  expect([11, 10].map((count) => areEnough(count, 20))).toEqual([true, false]);
  expect([9_400, 9_200].map((count) => areEnough(count, 10_000))).toEqual([true, false]);
});

const remembered = (...waits: readonly number[]): { readonly remembered: readonly Float64Array[] } => ({
  remembered: [Float64Array.from(waits)],
});

test('a job that begins before the one it waits for is a fault; one that never ran is another fault', () => {
  expect(outOfOrder(remembered(5, 6, 3, 4), { from: 0, count: 4 }, 2)).toEqual([]);
  expect(outOfOrder(remembered(9, 9, 5, 0), { from: 2, count: 2 }, 2)).toEqual([]);
  for (const early of [remembered(6, 5), remembered(0, 5)])
    expect(outOfOrder(early, { from: 0, count: 2 }, 2)).toEqual([
      '1 jobs of flows began before the job that they wait for',
    ]);
});

test('a chain takes as long as its last job waits; the first tenth is left out', () => {
  expect(waitsOf(remembered(0, 1_000, 9_000, 2_000, 3_000), { from: 1, count: 4 }, 2)).toEqual([3]);
});

test('a flow is a tree for BullMQ: the last step is the root', () => {
  const [first, second, last] = [1, 2, 3].map((n) => ({ payload: payloadOf(n), key: undefined }));
  if (first === undefined || second === undefined || last === undefined) throw new Error('no jobs');
  const job = { name: 'q', queueName: 'q' };
  expect(treeOf([[first, second], [last]], 'q')).toEqual({
    ...job,
    data: last.payload,
    children: [
      { ...job, data: first.payload },
      { ...job, data: second.payload },
    ],
  });
  expect(() => treeOf([[first], [second, last]], 'q')).toThrow('only the first step');
});
