// Writes the tables of a run into docs/benchmarks.md:
//   node bench/dist/report/markdown.js FILE …
// FILE is written by `npm run bench -- --json FILE`. With several files, a case by a peer in a later file
// replaces the earlier runs of that case by that peer.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { settingsText } from './html.ts';
import type { Report } from './report.ts';
import { mergeReports } from './report.ts';
import type { Section } from './summary.ts';
import { metricOf, sectionsOf, sizeText, spreadText } from './summary.ts';
import { targetRow, targetsOf } from './targets.ts';
import { longWorks, works } from '../works/index.ts';

/** Formats a report as Markdown: the environment, then a table for each case. */
export function markdownOf(report: Report): string {
  const { machine, postgres, redis, commands, commit, startedAt } = report;
  const sections = sectionsOf(report);
  const said = new Set<string>();
  return [
    `${commands.map((command) => `\`${command}\``).join(', ')}, ${startedAt.slice(0, 10)}${commit === undefined ? '' : `, commit ${commit}`}:`,
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB,`,
    `Node ${machine.node}, PostgreSQL ${postgres.version} (${settingsText(postgres.settings)})${redis === undefined ? '' : `, Redis ${redis.version} (${redis.settings})`}.`,
    'Medians; in brackets the lowest and the highest.',
    '',
    '| | version | settings |',
    '|---|---|---|',
    ...report.contestants.map(
      ({ peer, setting, version, says }) => `| ${peer}, ${setting} | ${version} | ${cell(says)} |`,
    ),
    ...targetLines(sections),
    ...sections.flatMap((section) => {
      const { work, case: name, metrics, rows } = section;
      const says = said.has(work) ? [] : ['', meaningOf(work)];
      said.add(work);
      const faults = rows.flatMap((row) =>
        row.faults.map((fault) => `- ${row.peer}, ${row.setting}, ${fault}`),
      );
      return [
        '',
        `### ${work}: ${name}`,
        ...says,
        '',
        sizeText(section),
        '',
        `| | ${metrics.map((metric) => cell(metricOf(metric).title)).join(' | ')} |`,
        `|---|${metrics.map(() => '--:|').join('')}`,
        ...rows.map(
          (row) =>
            `| ${row.peer}, ${row.setting} | ${metrics.map((metric) => spreadText(row.metrics[metric], metricOf(metric))).join(' | ')} |`,
        ),
        ...(faults.length === 0 ? [] : ['', ...faults]),
      ];
    }),
  ].join('\n');
}

function targetLines(sections: readonly Section[]): readonly string[] {
  const targets = targetsOf(sections);
  if (targets.length === 0) return [];
  return [
    '',
    '| target | measured | wanted | met |',
    '|---|--:|--:|---|',
    ...targets.map((target) => `| ${targetRow(target).join(' | ')} |`),
  ];
}

function meaningOf(work: string): string {
  return [...works, ...longWorks].find(({ name }) => name === work)?.says ?? '';
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}

const mark = '## Results\n';

/** Replaces the page's results; the sections after them stay. */
export function withResults(page: string, results: string): string {
  const [before = '', own = ''] = page.split(mark);
  const behind = own.indexOf('\n## ');
  return `${before}${mark}\n${results}\n${behind === -1 ? '' : own.slice(behind)}`;
}

const files = process.argv.slice(2);
if (files.length > 0 && process.argv[1] === fileURLToPath(import.meta.url)) {
  const page = new URL('../../../docs/benchmarks.md', import.meta.url);
  const report = mergeReports(files.map((file) => JSON.parse(readFileSync(file, 'utf8')) as Report));
  writeFileSync(page, withResults(readFileSync(page, 'utf8'), markdownOf(report)));
}
