import type { Diagnosis, Finding } from '@pgqueue/postgres';
import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import { plural } from '../output/format.ts';
import { examples } from './help.ts';

export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .summary('find what must never be, and mend it on request')
    .description(
      'Checks the invariants of the tables, and the health of indexes, partitions, rights and schedules. Exits with 1 if an error remains.',
    )
    .option('--mend', 'repair what can be repaired, each kind in one transaction')
    .action((options: { mend?: boolean }, self: Command) =>
      withOperator(self, async (operator, output) => {
        const diagnosis = await operator.doctor({ mend: options.mend === true });
        output.answer(diagnosis, () => diagnosisText(diagnosis));
        return diagnosis.healthy ? 0 : 1;
      }),
    );
  examples(command, [
    ['doctor', 'changes nothing'],
    ['doctor --mend', 'repairs what it can; run it as the owner of the schema'],
  ]);
}

function diagnosisText({ checked, findings, healthy }: Diagnosis): string {
  const verdict = healthy ? 'sound' : 'not sound';
  return [
    ...findings.map(findingText),
    `${plural(checked.length, 'check')}, ${plural(findings.length, 'finding')}: ${verdict}`,
  ].join('\n');
}

function findingText(finding: Finding): string {
  const { check, says, severity, count, samples, mendable, remedy, mended } = finding;
  const more = count > samples.length ? ', …' : '';
  const lines = [
    `${severity === 'error' ? 'ERROR' : 'WARN '} ${check}: ${count} against "${says}"`,
    `      ${samples.join(', ')}${more}`,
  ];
  if (mended === null) {
    lines.push(mendable ? `      doctor --mend ${remedy}` : `      to do: ${remedy}`);
  } else if (mended.error !== null) {
    lines.push(`      could not be mended: ${mended.error}`);
  } else {
    lines.push(mended.left === 0 ? '      mended' : `      ${mended.left} left: run it again`);
  }
  return lines.join('\n');
}
