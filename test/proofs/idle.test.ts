import { expect, test } from 'vitest';
import type { Lived } from './idle.ts';
import { longestIdle } from './idle.ts';

const lived = (
  waitingMs: number,
  dispatchedMs: number,
  endedMs: number | null,
  ...groups: string[]
): Lived => ({
  groups: groups.length > 0 ? groups : ['a'],
  waitingMs,
  dispatchedMs,
  endedMs,
});

test('a slot that stays free while a job waits is seen, and for how long', () => {
  const busy = [lived(0, 2, 10), lived(0, 2, 10)];
  expect(longestIdle(busy, { slots: 2, limitOf: () => 9 }).ms).toBe(2);
  // a third job waits from 5 on; a slot is free from 10 on; it goes at 40
  const late = [...busy, lived(5, 40, 50)];
  expect(longestIdle(late, { slots: 2, limitOf: () => 9 })).toEqual({ ms: 30, fromMs: 10, groups: 'a' });
});

test('a group at its limit is no reason to blame anybody', () => {
  const jobs = [lived(0, 1, 100), lived(0, 101, 110), lived(50, 52, 60, 'b')];
  expect(longestIdle(jobs, { slots: 4, limitOf: () => 1 }).ms).toBeLessThanOrEqual(2);
  expect(longestIdle(jobs, { slots: 4, limitOf: () => 2 }).ms).toBe(101);
});

test('one of several groups at its limit holds a job, too', () => {
  const jobs = [
    lived(0, 1, 100, 'tenant', 'key'),
    lived(0, 101, 110, 'tenant', 'key'),
    lived(0, 1, 9, 'tenant', 'other'),
  ];
  const limitOf = (group: string): number => (group === 'key' ? 1 : 3);
  expect(longestIdle(jobs, { slots: 4, limitOf }).ms).toBeLessThanOrEqual(2);
  expect(longestIdle(jobs, { slots: 4, limitOf: () => 3 })).toMatchObject({
    ms: 101,
    groups: 'tenant and key',
  });
});

test('pauses count for nothing', () => {
  const jobs = [lived(0, 1_000, 1_001)];
  expect(longestIdle(jobs, { slots: 1, limitOf: () => 1 }).ms).toBe(1_000);
  expect(longestIdle(jobs, { slots: 1, limitOf: () => 1, pauses: [{ fromMs: 100, toMs: 990 }] }).ms).toBe(
    100,
  );
});
