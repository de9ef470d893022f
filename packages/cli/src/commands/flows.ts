import { unreachable } from '@pgqueue/core/internal';
import { flowStates } from '@pgqueue/postgres/internal';
import type { FlowDetails, FlowRetry, FlowStatus, Operator } from '@pgqueue/postgres';
import { Argument, Option } from 'commander';
import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import type { ExitCode } from '../errors.ts';
import { flowText, listText, resultsText } from '../output/flow-text.ts';
import { plural } from '../output/format.ts';
import type { Output } from '../output/output.ts';
import { screenOf } from '../output/screen.ts';
import { flowId, json, uuid, whole } from '../parse.ts';
import { examples } from './help.ts';

export function addFlows(program: Command): void {
  const flows = program.command('flows').description('Lists, shows and changes flows.');
  addList(flows);
  addShow(flows);
  addResults(flows);
  addSignal(flows);
  addCancel(flows);
  addRetry(flows);
  examples(flows, [
    ['flows list --state open', 'the flows that have not ended'],
    ['flows show 0198…', 'the steps of one, and what they wait for'],
  ]);
}

interface ListOptions {
  readonly state?: FlowStatus;
  readonly name?: string;
  readonly key?: string;
  readonly after?: string;
  readonly limit: number;
}

function addList(flows: Command): void {
  const command = flows
    .command('list')
    .description('Lists flows in pages, newest first: ended steps, ended and dead jobs.')
    .addOption(new Option('--state <state>', 'only of this state').choices(flowStates))
    .option('--name <name>', 'only of this name')
    .option('--key <key>', 'only of this key')
    .option('--limit <n>', 'most flows to show, up to 1000', whole(1, 1_000), 50)
    .option('--after <flow>', 'show the page after this flow (the last one shown)', flowId)
    .action(({ state, name, key, after, limit }: ListOptions, self: Command) =>
      withOperator(self, async (operator, output) => {
        const page = await operator.flows.list({
          limit,
          ...(state === undefined ? {} : { state }),
          ...(name === undefined ? {} : { name }),
          ...(key === undefined ? {} : { key }),
          ...(after === undefined ? {} : { after }),
        });
        output.answer({ flows: page.items, next: page.next }, () => listText(page, width()));
      }),
    );
  examples(command, [
    ['flows list --state failed --name count-site', 'what failed of one kind'],
    ['flows list --key acme --json', 'for a program; "next" is the next --after'],
  ]);
}

/** Width of the terminal; without one nothing is cut, for grep and awk. */
function width(): number {
  return process.stdout.isTTY ? screenOf(process.stdout).columns : Infinity;
}

function addShow(flows: Command): void {
  const command = flows
    .command('show')
    .description(
      'Shows a flow: its steps in layers, each behind those that it needs, with numbers and what they wait for. Of a large flow it shows 100 steps, those first that are not done.',
    )
    .addArgument(flowArgument())
    .option('--all', 'every step of a large flow')
    .action((id: string, { all = false }: { readonly all?: boolean }, self: Command) =>
      withOperator(self, async (operator, output) => {
        const flow = await operator.flows.show(id);
        output.answer(flow, () => flowText(flow, { all, width: Math.min(width(), widest) }));
      }),
    );
  examples(command, [
    ['flows show 0198a3c2-…', 'as text'],
    ['flows show 0198a3c2-… --json', 'every step, for a program'],
  ]);
}

/** Width at which text is wrapped if the terminal is wider, or if there is none. */
const widest = 100;

function flowArgument(): Argument {
  return new Argument('<flow>', 'id of the flow').argParser(flowId);
}

interface ResultsOptions {
  readonly after?: string;
  readonly limit: number;
}

function addResults(flows: Command): void {
  const command = flows
    .command('results')
    .description(
      "Lists the results of a step's jobs in pages, and its jobs that are not done; of a signal its value.",
    )
    .addArgument(flowArgument())
    .argument('<step>', 'name of the step')
    .option('--limit <n>', 'most results to show, up to 1000', whole(1, 1_000), 50)
    .option('--after <job>', 'show the page after this job (the last one shown)', uuid)
    .action((id: string, step: string, { after, limit }: ResultsOptions, self: Command) =>
      withOperator(self, async (operator, output) => {
        const options = { limit, ...(after === undefined ? {} : { after }) };
        const page = await operator.flows.results(id, step, options);
        output.answer({ results: page.items, next: page.next }, () => resultsText(page, width()));
      }),
    );
  examples(command, [
    ['flows results 0198a3c2-… pages', 'the first 50'],
    ['flows results 0198a3c2-… pages --limit 1000 --json', 'whole, for a program'],
  ]);
}

function addSignal(flows: Command): void {
  const command = flows
    .command('signal')
    .description('Gives a signal of a flow its value. The first one counts, also before its step is open.')
    .addArgument(flowArgument())
    .argument('<step>', 'name of the signal')
    .option('--value <json>', 'value for the steps behind it; default null', json)
    .action((id: string, step: string, { value }: { readonly value?: unknown }, self: Command) =>
      withOperator(self, async (operator, output) => {
        const verdict = await operator.flows.signal(id, step, value);
        const why = {
          signalled: '',
          repeated: ': it has a value already, and that one counts',
          ended: ': the flow or the step has ended',
        }[verdict];
        output.answer({ flow: id, step, verdict }, () => `${id}  ${verdict}${why}`);
        return verdict === 'signalled' ? 0 : 1;
      }),
    );
  examples(command, [[`flows signal 0198a3c2-… ok --value '{"by": "ada"}'`, 'lets the flow go on']]);
}

interface CancelOptions {
  readonly reason?: string;
  readonly yes?: boolean;
}

function addCancel(flows: Command): void {
  const command = flows
    .command('cancel')
    .description(
      'Cancels a flow: its waiting jobs end, running ones are asked to stop by their signal, and steps that wait are skipped.',
    )
    .addArgument(flowArgument())
    .option('--reason <text>', 'a reason to show, up to 2000 characters')
    .option('--yes', 'cancel it; without it the command tells what would end')
    .action((id: string, { reason, yes }: CancelOptions, self: Command) =>
      withOperator(self, async (operator, output) =>
        yes === true
          ? cancelFlow(operator, output, { id, reason })
          : sayRest(output, await operator.flows.show(id)),
      ),
    );
  examples(command, [
    ['flows cancel 0198a3c2-…', 'tells what would end'],
    ['flows cancel 0198a3c2-… --yes --reason "wrong site"', 'cancels it'],
  ]);
}

/** Tells what a cancellation would end. Nothing was cancelled, so the exit code is 1. */
function sayRest(output: Output, { id, state, stopping, progress }: FlowDetails): ExitCode {
  const { steps, stepsEnded, added, done, dead, other } = progress;
  const left = { steps: steps - stepsEnded, jobs: Math.max(0, added - done - dead - other) };
  const open = state === 'open' && stopping === null;
  output.answer({ flow: id, state, open, left }, () => {
    if (!open) return `${id}  ${endedText(state)}`;
    return `${plural(left.steps, 'step')} and ${plural(left.jobs, 'job')} have not ended: give --yes to cancel them`;
  });
  return 1;
}

function endedText(state: FlowStatus): string {
  return state === 'open' ? 'ended: it is being cancelled already' : `ended: it has ended: ${state}`;
}

async function cancelFlow(
  operator: Operator,
  output: Output,
  { id, reason }: { readonly id: string; readonly reason: string | undefined },
): Promise<ExitCode> {
  const verdict = await operator.flows.cancel(id, reason === undefined ? {} : { reason });
  const why = verdict === 'ended' ? ': it has ended, or is being cancelled already' : '';
  output.answer({ flow: id, verdict }, () => `${id}  ${verdict}${why}`);
  return verdict === 'cancelling' ? 0 : 1;
}

function addRetry(flows: Command): void {
  const command = flows
    .command('retry')
    .description(
      'Runs what failed in a flow again: dead jobs, and jobs that were cancelled or expired, as far as history reaches. Steps that were skipped because of them wait again.',
    )
    .addArgument(flowArgument())
    .option('--step <name>', 'only what failed in this step and behind it')
    .action((id: string, { step }: { readonly step?: string }, self: Command) =>
      withOperator(self, async (operator, output) => {
        const retry = await operator.flows.retry(id, step === undefined ? {} : { step });
        output.answer({ flow: id, ...retry }, () => `${id}  ${retryText(retry)}`);
        return retry.verdict === 'retried' ? 0 : 1;
      }),
    );
  examples(command, [
    ['flows retry 0198a3c2-…', 'after a fix was deployed'],
    ['flows retry 0198a3c2-… --step pages', 'only from one step on'],
  ]);
}

function retryText({ verdict, jobs, gone, holder }: FlowRetry): string {
  switch (verdict) {
    case 'retried': {
      const lost = gone === 0 ? '' : `; ${gone} can't come back: history has them no longer`;
      return `retried: ${plural(jobs, 'job')} put back${lost}`;
    }
    case 'nothing':
      return 'nothing: no step has failed';
    case 'stopping':
      return 'stopping: it is being cancelled; retry it when it has ended';
    case 'key_taken':
      return `key_taken: another open flow has its unique key${holder === null ? '' : `: ${holder}`}`;
    default:
      return unreachable(verdict);
  }
}
