import { expect, test } from 'vitest';
import { createMovingKeys } from './moving-keys.ts';

test('a key is held until its move is over, and its lanes were read from their beginning', () => {
  const dropped: string[] = [];
  const wanted: string[] = [];
  let fresh = true;
  const lane = (queue: string, key: string) => ({
    queue,
    key,
    jobs: [],
    more: false,
    retryDueMs: null,
    fresh,
  });
  const moving = createMovingKeys({
    laneCache: {
      lanes: () => [lane('a', 'k'), lane('a', 'other'), lane('b', 'k')],
      want: (lanes) => wanted.push(...[...lanes].map(([name]) => name)),
    },
    cursors: { dropKeys: (keys) => dropped.push(...keys) },
  });
  moving.saw(null);
  expect([moving.held(), moving.over(), moving.waits()]).toEqual([[], [], false]);
  moving.saw([{ key: 'k', over: false }]);
  expect([moving.held(), moving.over(), wanted, dropped]).toEqual([['k'], [], [], []]);
  moving.saw([{ key: 'k', over: true }]);
  expect([moving.held(), moving.over(), moving.waits()]).toEqual([['k'], [], true]);
  expect([wanted, dropped]).toEqual([['1:ak', '1:bk'], ['k']]);
  fresh = false; // another page was read
  moving.saw([{ key: 'k', over: true }]);
  expect([moving.held(), moving.over()]).toEqual([['k'], []]);
  fresh = true;
  moving.saw([{ key: 'k', over: true }]);
  expect([moving.held(), moving.over(), moving.over()]).toEqual([['k'], ['k'], []]);
  moving.saw(undefined);
  expect([moving.held(), moving.over(), moving.waits()]).toEqual([[], [], false]);
});
