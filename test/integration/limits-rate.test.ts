import { afterEach, beforeEach, expect, test } from 'vitest';
import { ratesRun } from '../proofs/rates.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { quiet } from '../support/quiet.ts';

let database: TestDatabase;

beforeEach(async () => {
  database = await createTestDatabase();
  await quiet();
});

afterEach(() => database.drop());

test('100 a second with a burst of 10: no window has more, whoever leads', async () => {
  const report = await ratesRun({ url: database.url, seconds: 2, changes: 3 });
  // the clock has microseconds, so a window's length is known to a ten-thousandth of a job
  expect(report.worst.jobs).toBeLessThan(1e-3);
  expect(report.elections).toBe(4);
  expect(report.dispatched).toBeGreaterThan(200);
}, 90_000);

// A machine that stands still for longer than the burst lasts, 100 ms, loses tokens: so it may try again.
test('nearly all of the rate is used, and starts follow at once', { retry: 2, timeout: 60_000 }, async () => {
  const report = await ratesRun({ url: database.url, seconds: 4, changes: 0 });
  expect(report.used).toBeGreaterThanOrEqual(0.98);
  expect(report.used).toBeLessThanOrEqual(1.02);
  expect(report.startMs.p50).toBeLessThan(20);
  expect(report.startMs.p99).toBeLessThan(100);
});
