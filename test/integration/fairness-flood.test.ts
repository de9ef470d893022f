import { afterEach, beforeEach, expect, test } from 'vitest';
import { floodRun } from '../proofs/fairness.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { quiet } from '../support/quiet.ts';

let database: TestDatabase;

beforeEach(async () => {
  database = await createTestDatabase();
  await quiet();
});

afterEach(() => database.drop());

// Tens of milliseconds are compared: a machine that was busy with something else may try again.
test(
  'a hundred jobs behind a flood take at most twice as long as alone with half the slots',
  { retry: 2, timeout: 90_000 },
  async () => {
    const report = await floodRun({ url: database.url, flood: 30_000, rounds: 5 });
    expect(report.floodLeft).toBeGreaterThan(0);
    expect(report.floodPerSecond).toBeGreaterThan(100);
    expect(report.ratio).toBeLessThanOrEqual(2);
  },
);
