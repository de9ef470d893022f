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
  'weights 1:%i share the time of workers, though jobs take 100 ms and 2 ms',
  async (weight) => {
    // 2,000 jobs a second at most: whether the slots can be kept busy is not what is asked here
    const report = await sharesRun({ url: database.url, seconds: 10, weight, slots: 4, bMs: 2 });
    // a hundred of A's jobs in all: the proof asks for 0.05, of 60 seconds of 20 slots
    expect(report.error).toBeLessThanOrEqual(0.1);
    expect(report.jobs['b']).toBeGreaterThan(3 * (report.jobs['a'] ?? Infinity));
  },
  90_000,
);
