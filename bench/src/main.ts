import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { htmlOf } from './report/html.ts';
import { parseOptions } from './options.ts';
import { peerNames } from './peers/index.ts';
import { partsOf, plans } from './actors/plans.ts';
import type { Report } from './report/report.ts';
import { runBench } from './run.ts';
import { nameOf, stepsOf } from './steps.ts';
import { textOf } from './report/text.ts';
import { longWorks, works } from './works/index.ts';

const args = process.argv.slice(2);
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const stopping = new AbortController();
const againMs = 1_000;
let stoppedAt = Infinity;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // a process group is often signalled twice in a row; only a second signal after 1 s ends the process at
    // once
    if (performance.now() - stoppedAt > againMs) process.exit(130);
    if (stopping.signal.aborted) return;
    stoppedAt = performance.now();
    say('stopping: what runs now is left out (once more: at once)');
    stopping.abort();
  });
}
try {
  const options = parseOptions(args, {
    works: works.map(({ name }) => name),
    longWorks: longWorks.map(({ name }) => name),
    peers: peerNames,
    plans: Object.keys(plans),
  });
  const { json, html, resume, list } = options;
  if (list) {
    const names = (await stepsOf(options, partsOf(options))).map(nameOf);
    for (const { work, case: name, peer, setting, repetition } of names)
      process.stdout.write(`${work}, ${name}, ${peer}:${setting}, #${repetition}\n`);
    process.exit();
  }
  const keep = (report: Report): void => {
    if (json === undefined) return;
    // renamed into place: a run that is killed leaves the old file or the new one
    writeFileSync(`${json}.new`, `${JSON.stringify(report, undefined, 1)}\n`);
    renameSync(`${json}.new`, json);
  };
  const earlier =
    resume && json !== undefined && existsSync(json)
      ? (JSON.parse(readFileSync(json, 'utf8')) as Report)
      : undefined;
  const command = ['npm run bench --', ...args].join(' ');
  const report = await runBench(options, { command, say, keep, earlier, signal: stopping.signal });
  process.stdout.write(`${textOf(report)}\n`);
  if (html !== undefined) writeFileSync(html, htmlOf(report));
  if (report.runs.some(({ faults }) => faults.length > 0)) process.exitCode = 1;
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
// an interrupted run may still wait for a process that has exited
if (stopping.signal.aborted) process.exit(130);
