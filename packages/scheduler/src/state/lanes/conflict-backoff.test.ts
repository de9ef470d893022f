import { expect, test } from 'vitest';
import { createRefusals } from './conflict-backoff.ts';

const row = (rowVersion = '1') => ({ id: 'a', rowVersion });

test('a refused job is left out for a while, longer each time, and not once it was changed', () => {
  const refusals = createRefusals();
  expect(refusals.leavesOut(row(), 0)).toBe(false);
  refusals.note('a', '1', 0);
  expect([99, 100].map((nowMs) => refusals.leavesOut(row(), nowMs))).toEqual([true, false]);
  refusals.note('a', '1', 100);
  expect([299, 300].map((nowMs) => refusals.leavesOut(row(), nowMs))).toEqual([true, false]);
  for (let time = 0; time < 10; time += 1) refusals.note('a', '1', 1_000);
  expect([2_999, 3_000].map((nowMs) => refusals.leavesOut(row(), nowMs))).toEqual([true, false]);
  refusals.note('a', '1', 4_000);
  expect(refusals.leavesOut(row('2'), 4_001)).toBe(false);
});

test('so many are remembered, the newest', () => {
  const refusals = createRefusals();
  for (let id = 0; id < 20_001; id += 1) refusals.note(String(id), '1', 0);
  expect(refusals.leavesOut({ id: '0', rowVersion: '1' }, 1)).toBe(false);
  expect(refusals.leavesOut({ id: '1', rowVersion: '1' }, 1)).toBe(true);
});
