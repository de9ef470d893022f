// npm run chaos -- --judge FOLDER: the verdict over a history that was kept
// npm run chaos -- --minutes 3 --seed 1 [--faults worker-kill,network-delay] [--busy] [--python SHARE] [--json FILE] [--html FILE] [--keep FOLDER]
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startBusyCore } from './busy-core.ts';
import { lacks } from '../support/tools.ts';
import { lineOf, problemsOf } from './checker/check.ts';
import { reportOf } from './report.ts';
import { chaosRun, judge } from './run.ts';
import { timelineHtml } from './timeline.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string', default: '1' },
    faults: { type: 'string', default: 'all' },
    'per-second': { type: 'string', default: '120' },
    'fault-every': { type: 'string', default: '6' },
    python: { type: 'string', default: '0' },
    busy: { type: 'boolean', default: false },
    json: { type: 'string' },
    html: { type: 'string' },
    keep: { type: 'string' },
    judge: { type: 'string' },
  },
});
const python = Number(values.python);
if (!(python >= 0 && python <= 1)) throw new Error('--python must be a share of the workers, from 0 to 1');
if (python > 0 && lacks('psycopg')) throw new Error('--python needs Python with psycopg 3: see .ci/run');
const folder = values.judge ?? values.keep ?? mkdtempSync(join(tmpdir(), 'pgqueue-chaos-'));
const busy = values.busy ? startBusyCore() : undefined;
try {
  const run = await (values.judge === undefined
    ? chaosRun({
        seed: Number(values.seed),
        ms: Number(values.minutes) * 60_000,
        faults: values.faults.split(','),
        perSecond: Number(values['per-second']),
        python,
        everyMs: Number(values['fault-every']) * 1_000,
        folder,
      })
    : judge(values.judge));
  const report = reportOf(run);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, undefined, 2)}\n`);
  if (values.html !== undefined) writeFileSync(values.html, await timelineHtml(run));
  console.table(report.faults);
  const problems = problemsOf(run.verdict, { staleMin: 1 });
  for (const problem of problems) console.error(`violation: ${problem}`);
  console.log(lineOf(run.verdict));
  process.exitCode = problems.length === 0 ? 0 : 1;
} finally {
  await busy?.stop();
  if (values.keep === undefined && values.judge === undefined && process.exitCode === 0)
    rmSync(folder, { recursive: true, force: true });
  else console.log(`the history is in ${folder}`);
}
