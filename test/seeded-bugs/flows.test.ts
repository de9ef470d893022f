import { describe, expect, test } from 'vitest';
import { emptying, flowTables } from '../support/empty.ts';
import { openGround } from '../integration/sql/support.ts';
import type { FlowBug } from './flow-bugs.ts';
import { flowBugs } from './flow-bugs.ts';
import { seed } from './sql.ts';

/** Runs a bug's scenario on an empty database; `makes`: with the bug. */
async function verdictOn({ scenario, before, sql }: FlowBug, makes: boolean): Promise<readonly string[]> {
  const ground = await openGround();
  try {
    await ground.reset();
    await ground.sql(emptying(flowTables));
    if (makes && before !== undefined) await ground.sql(before);
    if (makes) await seed(ground.database, sql);
    return await scenario(ground);
  } finally {
    await ground.close();
  }
}

test('there are five', () => {
  expect(new Set(flowBugs.map(({ name }) => name)).size).toBe(5);
});

describe.each(flowBugs.map((bug) => [bug.name, bug] as const))('%s', (_name, bug) => {
  test('its scenario is good by itself', async () => {
    expect(await verdictOn(bug, false)).toEqual([]);
  });

  test('it is caught', async () => {
    expect(await verdictOn(bug, true)).toContainEqual(
      expect.stringMatching(new RegExp(`^${bug.finds}`, 'u')),
    );
  });
});
