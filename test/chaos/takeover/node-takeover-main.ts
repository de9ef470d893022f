// npm run test:node-takeover -- --rounds 6 --by session,silence,reset --longest 20000
// Exits 1 where a job waited for longer than docs/reliability.md says.
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { startServer } from '@pgqueue/postgres/testing';
import { percentile } from '../../proofs/checks.ts';
import { foundMaxMs, nodeTakeover, slots } from './node-takeover.ts';

const ways = ['session', 'silence', 'reset'] as const;
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '6' },
    by: { type: 'string', default: ways.join(',') },
    longest: { type: 'string', default: '20000' },
  },
});
const lengths = [
  [5, 50],
  [1_000, 3_000],
  [6_000, 20_000],
] as const;
const jobs = lengths.filter(([, longestMs]) => longestMs <= Number(values.longest));
const asked = ways.filter((way) => values.by.split(',').includes(way));
const nodes = 3;
const server = await startServer();
const admin = openDatabase({ connectionString: server.adminUrl });
const rows: object[] = [];

/** A slot is free after a job; then each node that is left begins the next of the lost jobs when the last one has ended, or has run for 30 s. */
function boundMs(longestMs: number): number {
  return 2_000 + longestMs + Math.ceil(slots / (nodes - 1)) * Math.min(longestMs, 30_000);
}

try {
  for (const [index, jobMs] of jobs.entries()) {
    for (const by of asked) {
      const name = `takeover_${index}_${by}`;
      await admin.query(`create database ${name}`, []);
      const url = new URL(server.adminUrl);
      url.pathname = `/${name}`;
      await migrate({ connectionString: url.href });
      const rounds = Number(values.rounds);
      const { foundMs, tookMs, wentOn } = await nodeTakeover({ url: url.href, rounds, nodes, by, jobMs });
      const at = (times: readonly number[], share: number): number => Math.round(percentile(times, share));
      const found = { 'found p50': at(foundMs, 0.5), 'found p99': at(foundMs, 0.99) };
      const [p50, p99, max] = [at(tookMs, 0.5), at(tookMs, 0.99), at(tookMs, 1)];
      const bound = boundMs(jobMs[1]) + foundMaxMs[by];
      if (max > bound || (by === 'session' && found['found p99'] > foundMaxMs.session)) process.exitCode = 1;
      const figures = { jobs: tookMs.length, wentOn, ...found, p50, p99, max, bound };
      rows.push({ jobMs: jobMs.join('–'), by, ...figures });
      console.log(JSON.stringify(rows.at(-1)));
    }
  }
  console.log(`PostgreSQL ${server.major}; milliseconds`);
  console.table(rows);
} finally {
  await admin.close();
  await server.stop();
}
