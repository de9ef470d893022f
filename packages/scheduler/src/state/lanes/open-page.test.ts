import type { LaneRead } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import type { OpenPages } from './open-page.ts';
import { createOpenPages } from './open-page.ts';

const lane = (queue: string, key: string, paged = true): LaneRead => ({
  queue,
  key,
  paged,
  wanted: 1,
  retryDueMs: null,
  jobs: [],
});

const full = ['a', 'b', 'b', 'open'].map((queue) => ({ queue }));
const plan = {
  whole: () => false,
  open: true,
  lanes: () => full,
  hasRoom: (queue: string) => queue === 'open',
};
const start = { queue: '', key: '' };

/** Reads, like a tick, a page of two lanes at most, and plans. Returns what the page left out. */
function tick(
  pages: OpenPages,
  nowMs: number,
  lanes: readonly LaneRead[] = [],
): readonly string[] | undefined {
  const page = pages.ask();
  pages.saw(lanes, { page, keys: 2, nowMs });
  pages.planned({ ...plan, nowMs });
  return page?.skip;
}

test('pages without the queues of full pools come in turn with the others, at most every half second', () => {
  const pages = createOpenPages();
  const left = [0, 1, 2, 3, 499, 500, 501, 502, 503, 1_100].map((nowMs) => tick(pages, nowMs));
  const skip = ['b', 'a'];
  const all = undefined;
  expect(left).toEqual([all, skip, all, all, all, all, all, skip, all, all]);
  expect(tick(pages, 1_101)).toEqual(skip);
});

test('as long as they are full, every other page is one, and begins where the last ended', () => {
  const pages = createOpenPages();
  tick(pages, 0);
  const two = [lane('open', 'x'), lane('open', 'y'), lane('a', 'named', false)];
  expect(tick(pages, 1, two)).toBeDefined();
  expect(tick(pages, 2)).toBeUndefined();
  expect(pages.ask()?.after).toEqual({ queue: 'open', key: 'y' });
  expect(tick(pages, 3, [lane('open', 'z')])).toBeDefined();
  tick(pages, 504);
  expect(pages.ask()?.after).toEqual(start);
});

test.each([
  ['all lanes are known', { whole: () => true }],
  ['no pool has free places', { open: false }],
  ['no pool is full', { hasRoom: () => true }],
])('there are none if %s', (_, over) => {
  const pages = createOpenPages();
  tick(pages, 0);
  expect(pages.planned({ ...plan, nowMs: 1 })).toBe(true);
  expect(pages.planned({ ...plan, ...over, nowMs: 1 })).toBe(false);
  expect(pages.ask()).toBeUndefined();
});
