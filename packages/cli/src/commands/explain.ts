import { reasonText } from '@pgqueue/postgres';
import type { Estimate, JobExplanation } from '@pgqueue/postgres';
import { Argument } from 'commander';
import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import { age, printable } from '../output/format.ts';
import { uuid } from '../parse.ts';
import { examples } from './help.ts';

export function addExplain(program: Command): void {
  const command = program
    .command('explain')
    .summary('say why a job is not running')
    .description(
      'Says where a job stands, everything that it waits for and until when, its place, and when it may start. For a waiting job the leading scheduler is asked, for two seconds at most.',
    )
    .addArgument(new Argument('<job>', 'its id').argParser(uuid))
    .action((id: string, _options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        const explanation = await operator.explain(id);
        output.answer(explanation, () => printable(explanationText(explanation)));
      }),
    );
  examples(command, [['explain 0198a3c2-…', 'why is it not running?']]);
}

function explanationText({ job, reasons, start, policy }: JobExplanation): string {
  const key = job.key === '' ? 'no key' : `key ${JSON.stringify(job.key)}`;
  return [
    `job ${job.id} is ${job.status}: task ${job.task}, queue ${job.queue}, ${key}, priority ${job.priority}, ${age(job.ageMs)} old`,
    ...reasons.map((reason) => `  - ${reasonText(reason, age)}`),
    ...(start === null ? [] : [`  ${startText(start)}`]),
    ...(policy === null ? [] : [`  (policy ${policy.name}, as of ${policy.at.toISOString()})`]),
  ].join('\n');
}

function startText({ at, evidence }: Estimate): string {
  const when = at === null ? 'no estimate of its start' : `may start at about ${at.toISOString()}`;
  return `${when}: ${evidence.join('; ')}`;
}
