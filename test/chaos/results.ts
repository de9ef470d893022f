// Writes the figures of a run into docs/reliability.md:
//   node --conditions=@pgqueue/source test/chaos/results.ts FILE     (what `npm run chaos -- --json FILE` has written)
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ChaosReport, FaultRow } from './report.ts';

/** The two tables of a run, as Markdown. */
export function resultsOf(report: ChaosReport): string {
  const { seed, minutes, jobs, faultsMade, kinds, violations, staleRefused, accepted, snapshots, effects } =
    report;
  const explained = Object.entries(report.duplicatesExplained);
  const again = explained.reduce((sum, [, count]) => sum + count, 0);
  const figures: readonly (readonly [string, string])[] = [
    ['jobs acknowledged', number(jobs)],
    ['how they ended', list(Object.entries(report.ended))],
    ['faults, kinds', `${number(faultsMade)}, ${number(kinds)}`],
    ['lost', number(violations['lost'] ?? 0)],
    ['unexpected', number(violations['unexpected'] ?? 0)],
    ['handlers that began again', `${number(again)} (${list(explained)})`],
    ['of these unexplained', number(violations['unexplained_duplicates'] ?? 0)],
    ['settlements accepted', number(accepted)],
    [
      'accepted twice, or not the newest',
      number((violations['accepted_twice'] ?? 0) + (violations['accepted_not_newest'] ?? 0)),
    ],
    ['stale settlements refused', number(staleRefused)],
    ['effects in `ctx.transaction`, wrong ones', `${number(effects)}, ${number(violations['effects'] ?? 0)}`],
    ['limits and rates exceeded', number(violations['limit_exceeded'] ?? 0)],
    [
      'snapshots, invariants broken in them',
      `${number(snapshots)}, ${number(violations['invariant_broken'] ?? 0)}`,
    ],
    ['other violations', number(others(violations))],
  ];
  return [
    `Seed ${seed}, ${minutes} minutes until the last job had ended, PostgreSQL 15, 2 cores.`,
    '',
    '| | |',
    '|---|---|',
    ...figures.map(([name, value]) => `| ${name} | ${value} |`),
    '',
    'Recovery: milliseconds from the end of a fault until a job was done that was claimed after it. Taken over: from a kill, a reset or an end out of',
    'memory until others had leased what the node had held; a node is lost after 2 seconds of silence.',
    '',
    '| fault | made | recovery p50 | p99 | max | taken over p50 | max |',
    '|---|---|---|---|---|---|---|',
    ...report.faults.map(rowOf),
  ].join('\n');
}

const told = [
  'lost',
  'unexpected',
  'unexplained_duplicates',
  'accepted_twice',
  'accepted_not_newest',
  'effects',
  'limit_exceeded',
  'invariant_broken',
];

function others(violations: ChaosReport['violations']): number {
  return Object.entries(violations).reduce(
    (sum, [name, count]) => sum + (told.includes(name) ? 0 : count),
    0,
  );
}

function rowOf({
  kind,
  made,
  recoveryP50,
  recoveryP99,
  recoveryMax,
  takenOverP50,
  takenOverMax,
}: FaultRow): string {
  const cells = [recoveryP50, recoveryP99, recoveryMax, takenOverP50, takenOverMax].map((ms) =>
    ms === null ? '' : number(ms),
  );
  return `| ${[`\`${kind}\``, String(made), ...cells].join(' | ')} |`;
}

function list(counts: readonly (readonly [string, number])[]): string {
  return counts.map(([name, count]) => `${name.replaceAll('_', ' ')} ${number(count)}`).join(', ');
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}

const [file] = process.argv.slice(2);
if (file !== undefined && process.argv[1] === fileURLToPath(import.meta.url)) {
  const page = new URL('../../docs/reliability.md', import.meta.url);
  const report = JSON.parse(readFileSync(file, 'utf8')) as ChaosReport;
  const [before] = readFileSync(page, 'utf8').split('## Results\n');
  writeFileSync(page, `${before}## Results\n\n${resultsOf(report)}\n`);
}
