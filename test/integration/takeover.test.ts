import { afterAll, beforeAll, expect, test } from 'vitest';
import { takeoverRun } from '../chaos/takeover.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});

afterAll(() => database.drop());

test('two schedulers, either killed at any moment: every job ends exactly once, the doctor finds nothing', async () => {
  const report = await takeoverRun({ url: database.url, seconds: 8, seed: 7 });
  expect(report.enqueued).toBeGreaterThan(500);
  expect(report.kills).toBeGreaterThan(2);
  expect(report.elections).toBeGreaterThan(1);
  expect(report.takeoverMaxMs).toBeLessThan(10_000);
  expect({ lost: report.lost, twice: report.twice, findings: report.findings }).toEqual({
    lost: 0,
    twice: 0,
    findings: [],
  });
  expect(report.doctorRuns).toBeGreaterThan(2);
}, 90_000);
