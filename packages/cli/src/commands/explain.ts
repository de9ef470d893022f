import { reasonText } from '@pgqueue/postgres';
import type { Explanation } from '@pgqueue/postgres';
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
    .description('Says where a job stands, everything that it waits for, and its place in its key.')
    .addArgument(new Argument('<job>', 'its id').argParser(uuid))
    .action((id: string, _options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        const explanation = await operator.explain(id);
        output.answer(explanation, () => printable(explanationText(explanation)));
      }),
    );
  examples(command, [['explain 0198a3c2-…', 'why is it not running?']]);
}

function explanationText({ job, reasons }: Explanation): string {
  const key = job.key === '' ? 'no key' : `key ${JSON.stringify(job.key)}`;
  return [
    `job ${job.id} is ${job.status}: task ${job.task}, queue ${job.queue}, ${key}, priority ${job.priority}, ${age(job.ageMs)} old`,
    ...reasons.map((reason) => `  - ${reasonText(reason, age)}`),
  ].join('\n');
}
