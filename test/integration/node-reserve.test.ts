import { afterEach, beforeEach, expect, test } from 'vitest';
import { lostAfterMs, nodeTakeover } from '../chaos/node-takeover.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(() => database.drop());

test('in a pool that is full, a reserve has the jobs of a dead node within the node-loss time and 2 s, and no others', async () => {
  const { tookMs, strangers } = await nodeTakeover({
    url: database.url,
    rounds: 1,
    nodes: 2,
    reserve: true,
    by: 'silence',
    jobMs: [4_000, 8_000],
  });
  expect(tookMs.length).toBeGreaterThan(4);
  expect(Math.max(...tookMs)).toBeLessThan(lostAfterMs + 2_000);
  expect(strangers).toBe(0);
}, 90_000);
