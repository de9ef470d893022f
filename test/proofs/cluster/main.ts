// npm run proof:cluster -- --minutes 10 --seed 1 [--patroni]
import { parseArgs } from 'node:util';
import { clusterRun } from './run.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    sites: { type: 'string', default: '4' },
    keys: { type: 'string', default: '200' },
    patroni: { type: 'boolean', default: false },
    'per-second': { type: 'string', default: '100' },
  },
});

const report = await clusterRun({
  seed: Number(values.seed),
  ms: Number(values.minutes) * 60_000,
  sites: Number(values.sites),
  keys: Number(values.keys),
  patroni: values.patroni,
  workers: 3,
  perSecond: Number(values['per-second']),
  faultEveryMs: 1_500,
  moveEveryMs: 500,
});
console.log(JSON.stringify(report, null, 1));
const faults = Object.values(report.faults).reduce((sum, count) => sum + count, 0);
console.log(
  `jobs ${report.jobs}, moves ${report.moves}, faults ${faults}, violations ${report.violations.length}`,
);
process.exitCode = report.violations.length === 0 ? 0 : 1;
