import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import type { Bagged } from './bag.ts';
import { Bag } from './bag.ts';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void;

const oldBytes = (): number =>
  getHeapSpaceStatistics().find((space) => space.space_name === 'old_space')?.space_used_size ?? NaN;

interface Item extends Bagged {
  readonly data: unknown;
}
const itemOf = (data: unknown): Item => ({ place: -1, data });

test('a bag has what was put in and not taken out, whatever the order', () => {
  const bag = new Bag<Item>();
  const [a, b, c, d] = [itemOf('a'), itemOf('b'), itemOf('c'), itemOf('d')];
  for (const item of [a, b, c]) bag.add(item);
  bag.delete(a);
  bag.delete(a);
  bag.delete(d);
  expect([bag.size, new Set(bag)]).toEqual([2, new Set([b, c])]);
  bag.add(a);
  bag.delete(c);
  bag.delete(b);
  expect([bag.size, [...bag]]).toEqual([1, [a]]);
  bag.delete(a);
  expect([bag.size, [...bag]]).toEqual([0, []]);
});

test('who goes through a bag meets those that were in it when that began', () => {
  const bag = new Bag<Item>();
  for (const data of ['a', 'b', 'c']) bag.add(itemOf(data));
  const met: unknown[] = [];
  for (const item of bag) {
    met.push(item.data);
    bag.delete(item);
    bag.add(itemOf('later'));
  }
  expect(met).toEqual(['a', 'b', 'c']);
});

test('what has left an old bag is garbage for a collection of young objects', () => {
  const bag = new Bag<Item>();
  const churn = (count: number): void => {
    const last: Item[] = [];
    for (let n = 0; n < count; n += 1) {
      const item = itemOf(Array.from({ length: 10 }, () => ({ n })));
      bag.add(item);
      last.push(item);
      const left = last.length > 10 ? last.shift() : undefined;
      if (left !== undefined) bag.delete(left);
    }
    for (const item of last) bag.delete(item);
  };
  churn(1_000);
  gc();
  gc();
  const before = oldBytes();
  churn(20_000);
  // Objects that survive two minor collections move to old space.
  gc({ type: 'minor' });
  gc({ type: 'minor' });
  expect(oldBytes() - before).toBeLessThan(500_000);
});
