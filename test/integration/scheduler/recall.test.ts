import { policy, ranked } from '@pgqueue/core';
import { afterEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Item } from './support.ts';
import { openBench, ticks, until } from './support.ts';

const bench = opened(openBench);
afterEach(() => bench.clear());

/** Smaller priorities first, over all keys. */
const urgentFirst = ranked({
  name: 'urgent-first',
  rank: ({ priority }) => priority,
  outranks: (job, other) => job.priority < other.priority,
});

const shown = (items: readonly Item[]) => items.map(({ key }) => key).join(' ');
const itemsAre = (keys: string): Promise<readonly Item[]> =>
  until(`the work items are ${keys}`, async () => {
    const items = await bench.items();
    return shown(items) === keys ? items : undefined;
  });

test('an urgent job goes before what is scheduled and not leased; what is leased stays', async () => {
  const node = await bench.node({ slots: 4 });
  await bench.enqueue({ count: 10, key: 'slow', priority: 5 });
  const scheduler = await bench.scheduler({
    policy: policy({ order: urgentFirst, recall: true }),
    horizonMs: 0,
  });
  await itemsAre('slow slow slow slow');
  const [running] = await node.claim(1);
  await bench.enqueue({ count: 2, key: 'urgent', priority: -1 });
  await bench.hint();
  const items = await itemsAre('slow urgent urgent slow');
  expect(items.map(({ leased }) => leased)).toEqual([true, false, false, false]);
  expect(items[0]?.id).toBe(running?.id);
  const before = ticks(scheduler).length;
  await bench.hint();
  await until('more ticks', () => ticks(scheduler).length > before + 1);
  expect((await bench.items()).map(({ position }) => position)).toEqual(
    items.map(({ position }) => position),
  );
  expect(await bench.count('queue')).toBe(12);
});

test('without recall it waits behind them', async () => {
  await bench.node({ slots: 3 });
  await bench.enqueue({ count: 3, key: 'slow', priority: 5 });
  const scheduler = await bench.scheduler({ policy: policy({ order: urgentFirst }), horizonMs: 0 });
  await itemsAre('slow slow slow');
  await bench.enqueue({ count: 1, key: 'urgent', priority: -1 });
  const before = ticks(scheduler).length;
  await bench.hint();
  await until('more ticks', () => ticks(scheduler).length > before + 1);
  expect(shown(await bench.items())).toBe('slow slow slow');
});
