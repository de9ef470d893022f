import { keyText, reasonText } from '@pgqueue/postgres/internal';
import type { Estimate, JobExplanation } from '@pgqueue/postgres';
import { Argument } from 'commander';
import type { Command } from 'commander';
import { acrossInstallations, withOperations } from '../installations.ts';
import { age, oneLine } from '../output/format.ts';
import { uuid } from '../parse.ts';
import { examples } from './help.ts';

export function addExplain(program: Command): void {
  const command = acrossInstallations(program.command('explain'))
    .summary('say why a job is not running')
    .description(
      'Tells the state of a job, what it waits for and until when, its place in line, and when it may start. For a waiting job it asks the leading scheduler, for two seconds at most.',
    )
    .addArgument(new Argument('<job>', 'id of the job').argParser(uuid))
    .action((id: string, _options: unknown, self: Command) =>
      withOperations(self, async (operator, output) => {
        const explanation = await operator.explain(id);
        output.answer(explanation, () => explanationText(explanation));
      }),
    );
  examples(command, [['explain 0198a3c2-…', 'why is it not running?']]);
}

function explanationText({ job, reasons, start, policy }: JobExplanation): string {
  return [
    `job ${job.id} is ${job.status}: task ${job.task}, queue ${job.queue}, ${keyText(job.key)}, priority ${job.priority}, ${age(job.ageMs)} old`,
    ...(job.flow === null ? [] : [`  (of flow ${job.flow}${job.step === null ? '' : `, step ${job.step}`})`]),
    ...reasons.map((reason) => `  - ${reasonText(reason, age)}`),
    ...(start === null ? [] : [`  ${startText(start)}`]),
    ...(policy === null ? [] : [`  (policy ${policy.name}, as of ${policy.at.toISOString()})`]),
  ]
    .map(oneLine)
    .join('\n');
}

function startText({ at, blocked, evidence }: Estimate): string {
  const because = evidence.join('; ');
  if (blocked) return `never starts until this changes: ${because}`;
  return at === null
    ? `no estimate of its start: ${because}`
    : `may start at about ${at.toISOString()}: ${because}`;
}
