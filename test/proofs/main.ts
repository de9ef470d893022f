// The long forms of the proofs, one or several by name:
//   npm run proof:limits -- --seconds 300 --seed 1        npm run proof:fairness        npm run proof:rate -- --seconds 120
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { cyclesRun } from './cycles.ts';
import { floodRun, sharesRun } from './fairness.ts';
import { limitsRun } from './limits.ts';
import { ratesRun } from './rates.ts';

interface Wanted {
  readonly url: string;
  readonly seconds: number;
  readonly seed: number;
}

interface Verdict {
  readonly holds: boolean;
  readonly report: unknown;
}

const nothing = (...found: readonly (readonly unknown[])[]): boolean =>
  found.every(({ length }) => length === 0);

const proofs: Readonly<Record<string, (wanted: Wanted) => Promise<Verdict>>> = {
  flood: async ({ url }) => {
    const report = await floodRun({ url, flood: 100_000, rounds: 7 });
    return { holds: report.ratio <= 2 && report.floodLeft > 0, report };
  },
  shares: async ({ url, seconds }) => {
    const report = await sharesRun({ url, seconds, weight: 1 });
    return { holds: report.error <= 0.05, report };
  },
  'shares-weighted': async ({ url, seconds }) => {
    const report = await sharesRun({ url, seconds, weight: 3 });
    return { holds: report.error <= 0.05, report };
  },
  limits: async (wanted) => {
    const report = await limitsRun(wanted);
    const clean = nothing(report.breaches, report.twice, report.findings);
    return { holds: clean && report.done === report.enqueued && report.elections > 1, report };
  },
  rate: async ({ url, seconds }) => {
    const report = await ratesRun({ url, seconds, changes: 6 });
    const holds = report.worst.jobs < 1e-3 && report.used >= 0.98 && report.startMs.p99 < 100;
    return { holds, report };
  },
  cycles: async ({ url, seconds }) => {
    const report = await cyclesRun({ url, seconds: Math.min(seconds, 20), keys: 1 });
    return { holds: report.perKey.every((perSecond) => perSecond >= 100), report };
  },
  'cycles-8': async ({ url, seconds }) => {
    const report = await cyclesRun({ url, seconds: Math.min(seconds, 20), keys: 8 });
    return { holds: report.perKey.every((perSecond) => perSecond >= 100), report };
  },
  'cycles-parts': async ({ url }) => {
    const report = await cyclesRun({ url, seconds: 10, keys: 1, parts: true });
    console.table(report.parts);
    return { holds: true, report };
  },
};

/** Each on a server of its own. */
async function prove(name: string, wanted: Omit<Wanted, 'url'>): Promise<boolean> {
  const proof = proofs[name];
  if (proof === undefined) throw new Error(`no proof ${name}: ${Object.keys(proofs).join(', ')}`);
  const server = await startServer();
  try {
    await migrate({ connectionString: server.adminUrl });
    const { holds, report } = await proof({ ...wanted, url: server.adminUrl });
    console.log(JSON.stringify({ proof: name, holds, postgres: server.major, ...wanted, report }));
    return holds;
  } finally {
    await server.stop();
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string', default: '60' }, seed: { type: 'string', default: '1' } },
});
const wanted = { seconds: Number(values.seconds), seed: Number(values.seed) };
for (const name of positionals) {
  if (!(await prove(name, wanted))) process.exitCode = 1;
}
