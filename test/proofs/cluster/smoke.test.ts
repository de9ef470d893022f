// A short form of the proof of several installations; `npm run proof:cluster` runs longer.
import { expect, test } from 'vitest';
import { clusterRun } from './run.ts';

const seed = Number(process.env['PGQUEUE_TEST_SEED'] ?? 20_263);

test('keys that move between installations under faults lose no job, and limits over all hold', async () => {
  const report = await clusterRun({
    seed,
    ms: 20_000,
    sites: 3,
    keys: 40,
    workers: 2,
    perSecond: 40,
    faultEveryMs: 1_500,
    moveEveryMs: 400,
  });
  const { faults, moves, violations } = report;
  expect({ violations, report: violations.length > 0 && report }).toEqual({ violations: [], report: false });
  expect(moves).toBeGreaterThan(3);
  expect(Object.keys(faults).length).toBeGreaterThan(2);
});
