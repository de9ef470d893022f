import { expect, test } from 'vitest';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import type { KillPointsReport } from './all.ts';
import { killPoints } from './all.ts';

/** As many databases, and so many points at a time: most of the time they wait for leases to end. */
async function onDatabases(
  count: number,
  work: (urls: readonly string[]) => Promise<KillPointsReport>,
): Promise<KillPointsReport> {
  const databases: TestDatabase[] = [];
  const drop = async (): Promise<void> => {
    for (const database of databases) await database.drop();
  };
  try {
    for (let n = 0; n < count; n += 1) databases.push(await createTestDatabase());
    const report = await work(databases.map(({ url }) => url));
    await drop();
    return report;
  } catch (error) {
    // the others are still at work: what they leave open is not what went wrong
    await drop().catch(() => {});
    throw error;
  }
}

test('a share of all points at which a process can die: nothing is lost, nothing happens twice', async () => {
  // no divisor in common with the six ways to die at each: all of them are among these
  const [every, from] = [29, Math.floor(Math.random() * 29)];
  const { points, problems } = await onDatabases(6, (urls) =>
    killPoints({ urls, every, from, alone: false }),
  );
  expect({ from, problems }).toEqual({ from, problems: [] });
  expect(Object.keys(points).sort()).toEqual(['batches', 'producer', 'scheduler', 'worker']);
}, 600_000);

test('processes of their own, killed', async () => {
  const [every, from] = [149, Math.floor(Math.random() * 149)];
  const { problems } = await onDatabases(4, (urls) => killPoints({ urls, every, from, alone: true }));
  expect({ from, problems }).toEqual({ from, problems: [] });
}, 600_000);
