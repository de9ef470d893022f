import { afterEach, beforeEach, expect, test } from 'vitest';
import { ratesRun } from '../proofs/rates.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';

let database: TestDatabase;

beforeEach(async () => {
  database = await createTestDatabase();
});

afterEach(() => database.drop());

test('100 a second with a burst of 10: no window has more, nearly all of it is used, starts follow at once', async () => {
  const report = await ratesRun({ url: database.url, seconds: 8, changes: 2 });
  // the clock has microseconds, so a window's length is known to a ten-thousandth of a job
  expect(report.worst.jobs).toBeLessThan(1e-3);
  expect(report.elections).toBe(3);
  expect(report.used).toBeGreaterThanOrEqual(0.98);
  expect(report.used).toBeLessThanOrEqual(1.02);
  expect(report.startMs.p50).toBeLessThan(20);
  expect(report.startMs.p99).toBeLessThan(100);
}, 60_000);
