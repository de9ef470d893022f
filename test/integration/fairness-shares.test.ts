import { afterEach, beforeEach, expect, test } from 'vitest';
import { sharesRun } from '../proofs/fairness.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { quiet } from '../support/quiet.ts';

let database: TestDatabase;

beforeEach(async () => {
  database = await createTestDatabase();
  await quiet();
});

afterEach(() => database.drop());

test.each([1, 3] as const)(
  'weights 1:%i share the time of workers, though jobs take 50 ms and 1 ms',
  async (weight) => {
    const report = await sharesRun({ url: database.url, seconds: 4, weight, slots: 8 });
    expect(report.error).toBeLessThanOrEqual(0.05);
    expect(report.jobs['b']).toBeGreaterThan(3 * (report.jobs['a'] ?? Infinity));
  },
  90_000,
);
