import { expect, test } from 'vitest';
import { ratesRun } from '../../proofs/rates.ts';
import { useDatabase } from '../../support/database.ts';

const database = useDatabase({ each: true });

// How much of the rate is used, and how soon starts follow, is measured by `npm run proof:rate`.
test('100 a second with a burst of 10: no window has more, whoever leads', async () => {
  const report = await ratesRun({ url: database.url, seconds: 2, changes: 3 });
  // the clock has microseconds, so a window's length is known to a ten-thousandth of a job
  expect(report.worst.jobs).toBeLessThan(1e-3);
  expect(report.elections).toBeGreaterThanOrEqual(4);
  // more than the burst: the rate itself was met
  expect(report.dispatched).toBeGreaterThan(10);
}, 600_000);
