import { expect, test } from 'vitest';
import { takeoverRun } from '../../chaos/takeover/takeover.ts';
import { useDatabase } from '../../support/database.ts';

const database = useDatabase();

// More kills, and how long a takeover lasts: `npm run test:takeover`.
test('two schedulers, either killed at any moment: every job ends exactly once, the doctor finds nothing', async () => {
  const report = await takeoverRun({ url: database.url, kills: 5, seed: 7 });
  expect(report.enqueued).toBeGreaterThan(0);
  expect(report.elections).toBeGreaterThan(1);
  expect({ lost: report.lost, twice: report.twice, findings: report.findings }).toEqual({
    lost: 0,
    twice: 0,
    findings: [],
  });
  expect(report.doctorRuns).toBeGreaterThan(0);
}, 600_000);
