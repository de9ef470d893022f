// npm run test:node-takeover -- --rounds 6
// Exits 1 where a job waited for longer than docs/reliability.md says.
import { parseArgs } from 'node:util';
import { migrate, openDatabase } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { percentile } from '../proofs/checks.ts';
import { lostAfterMs, nodeTakeover, slots } from './node-takeover.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '6' } } });
const jobs = [
  [5, 50],
  [1_000, 3_000],
  [6_000, 20_000],
] as const;
const server = await startServer();
const admin = openDatabase({ connectionString: server.adminUrl });
const rows: object[] = [];

/** From when the node is known to be dead. */
function boundMs(longestMs: number, reserve: boolean): number {
  if (reserve) return 2_000;
  return longestMs < 10_000 ? 2_000 + longestMs : 60_000 + slots * 700;
}

try {
  for (const [index, jobMs] of jobs.entries()) {
    for (const reserve of [false, true]) {
      for (const by of ['silence', 'reset'] as const) {
        const name = `takeover_${index}_${reserve}_${by}`;
        await admin.query(`create database ${name}`, []);
        const url = new URL(server.adminUrl);
        url.pathname = `/${name}`;
        await migrate({ connectionString: url.href });
        const rounds = Number(values.rounds);
        const whole = { url: url.href, rounds, nodes: 3, reserve, by, jobMs };
        const { tookMs, ...others } = await nodeTakeover(whole);
        const [p50, max] = [percentile(tookMs, 0.5), percentile(tookMs, 1)];
        const bound = boundMs(jobMs[1], reserve) + (by === 'silence' ? lostAfterMs : 0);
        if (max > bound) process.exitCode = 1;
        const figures = { jobs: tookMs.length, ...others, p50: Math.round(p50), max: Math.round(max), bound };
        rows.push({ jobMs: jobMs.join('–'), reserve, by, ...figures });
        console.log(JSON.stringify(rows.at(-1)));
      }
    }
  }
  console.log(`node-loss time ${lostAfterMs} ms, PostgreSQL ${server.major}`);
  console.table(rows);
} finally {
  await admin.close();
  await server.stop();
}
