import { afterEach, beforeEach, expect, test } from 'vitest';
import { cyclesRun } from '../proofs/cycles.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { quiet } from '../support/quiet.ts';

let database: TestDatabase;

beforeEach(async () => {
  database = await createTestDatabase();
  await quiet();
});

afterEach(() => database.drop());

// The next poll comes after 50 ms: without a hint, 20 jobs a second at most. The target of a hundred is what `npm run proof:cycles` judges.
test.each([1, 8])(
  '%i keys with a limit of 1: a freed slot wakes the scheduler, no poll is waited for',
  { retry: 2, timeout: 60_000 },
  async (keys) => {
    const report = await cyclesRun({ url: database.url, keys, seconds: 3 });
    expect(report.perKey).toHaveLength(keys);
    for (const best of report.bestPerKey) expect(best).toBeGreaterThanOrEqual(40);
  },
);
