import type { HealthReading } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import { createHorizon } from './database-health.ts';

/** A reading at `seconds`, with the next transaction id and the oldest id that vacuum must keep. */
function reading(
  seconds: number,
  nextXid: number,
  oldestXid: number | null,
  heldForMs: number | null = null,
): HealthReading {
  return { readMs: seconds * 1_000, nextXid, oldestXid, heldForMs, deadRows: 0, replicationLagMs: 0 };
}

const agesOf = (...readings: readonly HealthReading[]): readonly number[] => {
  const horizon = createHorizon();
  return readings.map((one) => horizon.ageMs(one) / 1_000);
};

test('a snapshot is as old as the moment at which its oldest transaction was the newest', () => {
  expect(
    agesOf(
      reading(0, 100, null),
      reading(5, 200, 199),
      reading(10, 300, 199),
      reading(15, 400, 199),
      reading(20, 500, 450),
      reading(25, 600, null),
    ),
  ).toEqual([0, 0, 5, 10, 0, 0]);
});

test('where nothing is written, a snapshot holds nothing back, however long it lasts', () => {
  expect(agesOf(reading(0, 100, 100), reading(5, 100, 100), reading(500, 100, 100))).toEqual([0, 0, 0]);
});

test('one from before the first reading counts since then, or since its transaction began, if that may be seen', () => {
  expect(agesOf(reading(0, 100, 50), reading(5, 200, 50), reading(10, 300, 50))).toEqual([0, 5, 10]);
  expect(agesOf(reading(0, 100, 50, 60_000), reading(5, 200, 50, 65_000))).toEqual([60, 65]);
});

test('a long transaction that takes new snapshots all the time does not make them old', () => {
  expect(
    agesOf(reading(0, 100, 99, 0), reading(600, 200, 199, 600_000), reading(605, 300, 199, 605_000)),
  ).toEqual([0, 0, 5]);
});

test('transaction ids that start over at their end are compared as PostgreSQL does', () => {
  const end = 2 ** 32;
  expect(agesOf(reading(0, end - 10, null), reading(5, 20, end - 5), reading(10, 90, end - 5))).toEqual([
    0, 0, 5,
  ]);
});

test('hours of readings are remembered in a bounded number of moments', () => {
  const horizon = createHorizon();
  for (let n = 0; n < 10_000; n += 1) horizon.ageMs(reading(n * 5, 1_000 + n * 10, null));
  const hourAgo = 1_000 + (10_000 - 720) * 10;
  const age = horizon.ageMs(reading(50_000, 101_000, hourAgo)) / 1_000;
  expect(age).toBeGreaterThan(3_600 * 0.8);
  expect(age).toBeLessThanOrEqual(3_600);
});
