// The long forms of the proofs, one or several by name:
//   npm run proof:limits -- --seconds 300 --seed 1        npm run proof:fairness        npm run proof:rate -- --seconds 120
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { autoscaleRun } from './autoscale.ts';
import { cyclesRun } from './cycles.ts';
import { floodRun, sharesRun } from './fairness.ts';
import { limitsRun } from './limits.ts';
import { ratesRun } from './rates.ts';

interface Wanted {
  readonly url: string;
  readonly seconds: number;
  readonly seed: number;
}

/** Figures are printed for people to read; the exit tells only of what no busy machine excuses. */
interface Verdict {
  readonly holds: boolean;
  readonly report: unknown;
}

const nothing = (...found: readonly (readonly unknown[])[]): boolean =>
  found.every(({ length }) => length === 0);

/** Relative to the smaller share. With jobs counted in place of their time it would be above 0.8. */
const sharesErrorMax = 0.2;
/** Without hints a freed slot is found by the next poll, after 50 ms: 20 jobs a second at most. */
const cyclesMin = 40;

const proofs: Readonly<Record<string, (wanted: Wanted) => Promise<Verdict>>> = {
  flood: async ({ url }) => {
    const report = await floodRun({ url, flood: 100_000, rounds: 7 });
    // near 1 where it is fair; in order of arrival B would wait for a flood of a thousand times its own jobs
    return { holds: report.ratio <= 5 && report.floodLeft > 0, report };
  },
  shares: async ({ url, seconds }) => {
    const report = await sharesRun({ url, seconds, weight: 1 });
    return { holds: report.error <= sharesErrorMax, report };
  },
  'shares-weighted': async ({ url, seconds }) => {
    const report = await sharesRun({ url, seconds, weight: 3 });
    return { holds: report.error <= sharesErrorMax, report };
  },
  limits: async (wanted) => {
    const report = await limitsRun(wanted);
    const clean = nothing(report.breaches, report.twice, report.findings);
    return { holds: clean && report.done === report.enqueued && report.elections > 1, report };
  },
  rate: async ({ url, seconds }) => {
    const report = await ratesRun({ url, seconds, changes: 6 });
    // the rate is exact on any machine; with half of it unused, or starts a second late, something is broken
    const holds = report.worst.jobs < 1e-3 && report.used >= 0.5 && report.startMs.p50 < 1_000;
    return { holds, report };
  },
  autoscale: async ({ url, seconds }) => {
    const min = 1;
    const swings = Math.max(1, Math.round(seconds / 20));
    const load = { swings, burst: 500, held: 60, jobMs: 200 };
    const report = await autoscaleRun({ url, ...load, slots: 5, min, max: 4, everyMs: 500, downMs: 3_000 });
    const whole = report.lost === 0 && report.done === report.enqueued;
    return { holds: whole && report.atEnd === min && report.held.workers === 1, report };
  },
  cycles: async ({ url, seconds }) => {
    const report = await cyclesRun({ url, seconds: Math.min(seconds, 20), keys: 1 });
    return { holds: report.bestPerKey.every((perSecond) => perSecond >= cyclesMin), report };
  },
  'cycles-8': async ({ url, seconds }) => {
    const report = await cyclesRun({ url, seconds: Math.min(seconds, 20), keys: 8 });
    return { holds: report.bestPerKey.every((perSecond) => perSecond >= cyclesMin), report };
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
