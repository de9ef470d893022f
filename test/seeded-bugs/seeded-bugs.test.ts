import { describe, expect, test } from 'vitest';
import { createTestDatabase } from '../support/database.ts';
import type { Bug } from './bugs.ts';
import { bugs, isCaught } from './bugs.ts';
import { judge } from './judge.ts';

async function verdictOn(scenario: string, bug?: Bug): Promise<readonly string[]> {
  const database = await createTestDatabase();
  try {
    return await judge(database.url, scenario, bug);
  } finally {
    await database.drop();
  }
}

test('there are fifteen', () => {
  expect(new Set(bugs.map(({ name }) => name)).size).toBe(15);
});

// each is a process of its own, which mostly waits
describe.concurrent('seeded bugs', { timeout: 600_000 }, () => {
  test.each(bugs.map((bug) => [bug.scenario, bug] as const))('"%s" is good by itself', async (scenario) => {
    expect(await verdictOn(scenario)).toEqual([]);
  });

  test.each(bugs.map((bug) => [bug.name, bug] as const))('caught: %s', async (_name, bug) => {
    const found = await verdictOn(bug.scenario, bug);
    expect({ found, caught: isCaught(bug, found) }).toMatchObject({ caught: true });
  });
});
