import { expect, test } from 'vitest';
import { workerUse } from './worker-use.ts';

const span = { slots: 2, stepMs: 60_000, countedTo: '2026-01-01T12:00:30.000Z' };

test.each([
  ['a minute that is over', '2026-01-01T11:59:00.000Z', 0.25],
  ['half a minute, of what was counted', '2026-01-01T12:00:00.000Z', 0.5],
  ['one that has just begun', '2026-01-01T12:00:20.000Z', null],
  ['one behind what was counted', '2026-01-01T12:01:00.000Z', null],
])('the share of the slots in %s', (_, at, wanted) => {
  expect(workerUse({ at, busyMs: 30_000 }, span)).toBe(wanted);
});

test('nothing is told where there are no slots, and before anything was counted', () => {
  const bucket = { at: '2026-01-01T11:00:00.000Z', busyMs: 1 };
  expect(workerUse(bucket, { ...span, slots: 0 })).toBeNull();
  expect(workerUse(bucket, { ...span, countedTo: null })).toBeNull();
});
