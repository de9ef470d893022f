import Table from 'cli-table3';
import type { Report } from './report.ts';
import { targetRow, targetsOf } from './targets.ts';
import { metricOf, sectionsOf, sizeText, spreadText } from './summary.ts';

/** Formats a report for a terminal. */
export function textOf(report: Report): string {
  const { machine, postgres, contestants } = report;
  const tables = sectionsOf(report).map((section) => {
    const { work, case: name, metrics, rows } = section;
    const table = new Table({
      head: ['', ...metrics.map((metric) => metricOf(metric).title)],
      colAligns: ['left', ...metrics.map(() => 'right' as const)],
      style: { head: [], border: [], compact: true },
    });
    for (const row of rows) {
      table.push([
        `${row.peer}, ${row.setting}`,
        ...metrics.map((metric) => spreadText(row.metrics[metric], metricOf(metric))),
      ]);
    }
    const faults = rows.flatMap((row) => row.faults.map((fault) => `${row.peer}, ${row.setting} ${fault}`));
    return [`${work}: ${name}; ${sizeText(section)}`, table.toString(), ...faults].join('\n');
  });
  const targets = targetsOf(sectionsOf(report)).map((target) => {
    const [what, value, bound, met] = targetRow(target);
    return `${met === 'yes' ? 'met ' : 'MISS'} ${what}: ${value} (${bound})`;
  });
  return [
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.system}, Node ${machine.node}, PostgreSQL ${postgres.version}`,
    ...contestants.map(
      ({ peer, setting, version, says }) =>
        `${peer}${version === '' ? '' : ` ${version}`}, ${setting}: ${says}`,
    ),
    '',
    ...tables,
    ...(targets.length === 0 ? [] : ['', ...targets]),
  ].join('\n');
}
