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

// A cycle of 10 ms leaves no room for what else a machine does: so it may try again.
test.each([1, 8])(
  '%i keys with a limit of 1: a hundred jobs of 5 ms a second each',
  { retry: 2, timeout: 60_000 },
  async (keys) => {
    const report = await cyclesRun({ url: database.url, keys, seconds: 4 });
    expect(report.perKey).toHaveLength(keys);
    for (const best of report.bestPerKey) expect(best).toBeGreaterThanOrEqual(100);
  },
);
