// A short form of the proof of flows: processes that die and freeze, replies that are lost. `npm run proof:flows` runs longer, and
// crashes the server, too, and asks for a second in place of ten: other tests run beside this.
import { expect, test } from 'vitest';
import { lineOf, tell } from '../../proofs/flows/report.ts';
import { flowsRun } from '../../proofs/flows/run.ts';
import { useDatabase } from '../../support/database.ts';

const own = useDatabase();
const seed = Number(process.env['PGQUEUE_TEST_SEED'] ?? 20_261);

test('random flows end as their graphs say under faults', async () => {
  const report = await flowsRun({
    url: own.url,
    seed,
    ms: 12_000,
    stepsMax: 30,
    openMax: 20,
    promptMs: 10_000,
  });
  if (report.violations.length > 0) tell(report, seed);
  console.log(lineOf(report));
  expect(report.violations).toEqual([]);
  expect(report.flows).toBeGreaterThan(5);
  expect(Object.keys(report.faults).length).toBeGreaterThan(2);
});
