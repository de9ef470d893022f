// npm run test:takeover -- --kills 90 --seed 1
// Exits 1 where a job was lost or ran twice to its end, and where takeovers took longer than docs/reliability.md says.
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { percentile } from '../../proofs/checks.ts';
import { takeoverRun } from './takeover.ts';

const boundMs = 500;

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '90' }, seed: { type: 'string', default: '1' } },
});
const server = await startServer();
try {
  await migrate({ connectionString: server.adminUrl });
  const report = await takeoverRun({
    url: server.adminUrl,
    kills: Number(values.kills),
    seed: Number(values.seed),
  });
  const { takeoverMs, ...rest } = report;
  const [p50, p99, max] = [0.5, 0.99, 1].map((share) => Math.round(percentile(takeoverMs, share)));
  const takeovers = { count: takeoverMs.length, p50, p99, max };
  console.log(JSON.stringify({ seed: Number(values.seed), postgres: server.major, ...rest, takeovers }));
  const clean =
    (p99 ?? Infinity) <= boundMs &&
    report.lost === 0 &&
    report.twice === 0 &&
    report.findings.length === 0 &&
    report.enqueued > 0;
  process.exitCode = clean ? 0 : 1;
} finally {
  await server.stop();
}
