// npm run test:takeover -- --seconds 120 --seed 1
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { takeoverRun } from './takeover.ts';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '120' }, seed: { type: 'string', default: '1' } },
});
const server = await startServer();
try {
  await migrate({ connectionString: server.adminUrl });
  const report = await takeoverRun({
    url: server.adminUrl,
    seconds: Number(values.seconds),
    seed: Number(values.seed),
  });
  console.log(JSON.stringify({ seed: Number(values.seed), postgres: server.major, ...report }));
  const clean =
    report.lost === 0 && report.twice === 0 && report.findings.length === 0 && report.enqueued > 0;
  process.exitCode = clean ? 0 : 1;
} finally {
  await server.stop();
}
