import { afterEach, beforeEach, expect, test } from 'vitest';
import { ratesRun } from '../../proofs/rates.ts';
import type { TestDatabase } from '../../support/database.ts';
import { createTestDatabase } from '../../support/database.ts';

let database: TestDatabase;

beforeEach(async () => {
  database = await createTestDatabase();
});

afterEach(() => database.drop());

// How much of the rate is used, and how soon starts follow, is measured by `npm run proof:rate`.
test('100 a second with a burst of 10: no window has more, whoever leads', async () => {
  const report = await ratesRun({ url: database.url, seconds: 2, changes: 3 });
  // the clock has microseconds, so a window's length is known to a ten-thousandth of a job
  expect(report.worst.jobs).toBeLessThan(1e-3);
  expect(report.elections).toBeGreaterThanOrEqual(4);
  // more than the burst: the rate itself was met
  expect(report.dispatched).toBeGreaterThan(10);
}, 600_000);
