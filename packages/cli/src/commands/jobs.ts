import { PgQueueError } from '@pgqueue/core';
import { errorLine, jobStatuses, unreachable } from '@pgqueue/core/internal';
import type { JobStatus } from '@pgqueue/core';
import type { JobCount, JobDetails, JobSummary, UnfinishedFilter, Verdicts } from '@pgqueue/postgres';
import type { RouterPage } from '@pgqueue/router';
import { Argument, Option } from 'commander';
import type { Command } from 'commander';
import type { Operations } from '../installations.ts';
import { acrossInstallations, isAcross, withOperations } from '../installations.ts';
import type { ExitCode } from '../errors.ts';
import { UsageError } from '../errors.ts';
import { age, brief, oneLine, plural, printable } from '../output/format.ts';
import type { Output } from '../output/output.ts';
import { facts } from '../output/table.ts';
import type { Moment } from '../parse.ts';
import { dateOf, flowId, json, moment, uuid, uuids, whole } from '../parse.ts';
import { examples } from './help.ts';

export function addJobs(program: Command): void {
  const jobs = program.command('jobs').description('Lists, shows and changes jobs.');
  addList(jobs);
  addShow(jobs);
  addRetry(jobs);
  addCancel(jobs);
  addDelete(jobs);
  addAmend(jobs);
  addSignal(jobs);
  examples(jobs, [
    ['jobs list --status running', 'what runs now'],
    ['jobs show 0198…', 'one job with its payload, result and errors'],
  ]);
}

interface ListOptions {
  readonly status?: JobStatus;
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  readonly flow?: string;
  readonly step?: string;
  readonly after?: string;
  readonly limit: number;
}

function addList(jobs: Command): void {
  const command = acrossInstallations(jobs.command('list'))
    .description('Lists jobs in pages, newest first.')
    .addOption(new Option('--status <status>', 'only of this status').choices(jobStatuses))
    .option('--queue <queue>', 'only of this queue')
    .option('--task <task>', 'only of this task')
    .option('--key <key>', 'only of this key')
    .option('--flow <flow>', 'only of this flow', flowId)
    .option('--step <name>', 'only of this step of the flow')
    .option('--limit <n>', 'most jobs to show, up to 1000', whole(1, 1_000), 50)
    .option('--after <id>', 'show the page after this job (the last one shown)', uuid)
    .action((options: ListOptions, self: Command) =>
      withOperations(self, async (operator, output) => {
        const { status, queue, task, key, flow, step, after, limit } = options;
        if (step !== undefined && flow === undefined) throw new UsageError('--step needs --flow');
        const page = await operator.jobs.list({
          limit,
          ...(status === undefined ? {} : { status }),
          ...(queue === undefined ? {} : { queue }),
          ...(task === undefined ? {} : { task }),
          ...(key === undefined ? {} : { key }),
          ...(flow === undefined ? {} : { flow }),
          ...(step === undefined ? {} : { step }),
          ...(after === undefined ? {} : { after }),
        });
        const { unreachable = [] } = page as Partial<RouterPage<JobSummary>>;
        const missing = isAcross(self) ? { unreachable } : {};
        output.answer({ jobs: page.items, next: page.next, ...missing }, () =>
          [listText(page, output), ...unreachable.map(({ message }) => `DOWN  ${oneLine(message)}`)].join(
            '\n',
          ),
        );
        return unreachable.length === 0 ? 0 : 1;
      }),
    );
  examples(command, [
    ['jobs list --queue mail --key tenant-7', 'jobs of one tenant in a queue'],
    ['jobs list --status dead --limit 1000 --json', 'for a program; "next" is the next --after'],
    ['jobs list --flow 0198a3c2-… --step pages --status dead', 'dead jobs of one step'],
  ]);
}

function listText(
  { items, next }: { readonly items: readonly JobSummary[]; readonly next: string | null },
  output: Output,
): string {
  if (items.length === 0) return 'no jobs';
  const rows = items.map((job) => [
    job.id,
    job.status,
    job.queue,
    job.task,
    job.key,
    job.priority,
    job.maxTries === null ? job.tries : `${job.tries}/${job.maxTries}`,
    age(job.ageMs),
    job.node,
    job.lastError === null ? '' : brief(errorLine(job.lastError), 40),
  ]);
  const heads = ['id', 'status', 'queue', 'task', 'key', 'priority', 'tries', 'age', 'node', 'last error'];
  const more = next === null ? [] : [`more: --after ${next}`];
  return [output.table(heads, rows), ...more].join('\n');
}

function addShow(jobs: Command): void {
  const command = acrossInstallations(jobs.command('show'))
    .description('Shows one job: its state, payload, result and errors.')
    .addArgument(new Argument('<job>', 'id of the job').argParser(uuid))
    .action((id: string, _options: unknown, self: Command) =>
      withOperations(self, async (operator, output) => {
        const job = await operator.jobs.get(id);
        if (job === undefined) throw new PgQueueError('not_found', `there is no job ${id}: ${gone}`);
        output.answer(job, () => showText(job));
      }),
    );
  examples(command, [
    ['jobs show 0198a3c2-…', 'as text'],
    ['jobs show 0198a3c2-… --json', 'as JSON'],
  ]);
}

function showText(job: JobDetails): string {
  const { payload, result, checkpoint, errors, progress, lastError: _last, trace, ...rest } = job;
  const scalars = Object.entries({ ...rest, traceparent: trace?.traceparent ?? null })
    .filter(([, value]) => value !== null && value !== false)
    .map(([name, value]): [string, string] => {
      if (value instanceof Date) return [name, value.toISOString()];
      if (name.endsWith('Ms')) return [name.slice(0, -2), age(Number(value))];
      return [name, typeof value === 'object' ? JSON.stringify(value) : String(value)];
    });
  const documents = Object.entries({ payload, progress, checkpoint, result }).filter(
    ([, value]) => value !== null && value !== undefined,
  );
  return [
    facts(scalars),
    ...documents.map(([name, value]) => `\n${name}\n${printable(JSON.stringify(value, null, 2))}`),
    ...(errors.length === 0 ? [] : ['\nerrors']),
    ...errors.map((error) =>
      printable(`  try ${error.try}  ${error.at}  ${error.node ?? '-'}  ${brief(errorLine(error), 200)}`),
    ),
  ].join('\n');
}

function idsArgument(): Argument {
  return new Argument('<job...>', 'one or more ids').argParser(uuids);
}

function addRetry(jobs: Command): void {
  const command = acrossInstallations(jobs.command('retry'))
    .description(
      'Makes waiting jobs due now, and puts dead ones back into their queues. Leaves running jobs alone.',
    )
    .addArgument(idsArgument())
    .action((ids: readonly string[], _options: unknown, self: Command) =>
      withOperations(self, async (operator, output) =>
        sayVerdicts(output, 'retry', await operator.jobs.retry(ids)),
      ),
    );
  examples(command, [['jobs retry 0198a3c2-…', 'does not wait for its backoff']]);
}

interface CancelOptions extends UnfinishedFilter {
  readonly yes?: boolean;
  readonly installations?: string;
}

function addCancel(jobs: Command): void {
  const unfinished = ['delayed', 'pending', 'ready', 'running'] as const;
  const command = acrossInstallations(jobs.command('cancel'))
    .description(
      'Ends waiting jobs, and asks running ones to stop by their signal (signalled). A filter works in chunks, so an interrupted command can be repeated.',
    )
    .addArgument(new Argument('[job...]', 'ids; else give a filter').argParser(uuids))
    .option('--queue <queue>', 'all of this queue')
    .option('--task <task>', 'all of this task')
    .option('--key <key>', 'all of this key')
    .addOption(new Option('--status <status>', 'all of this status').choices(unfinished))
    .option('--yes', 'cancel all jobs of the filter; without it they are only counted')
    .action(
      (
        given: readonly string[] | undefined,
        { yes, installations: _all, ...filter }: CancelOptions,
        self: Command,
      ) => {
        const ids = given ?? [];
        if (ids.length > 0 === Object.keys(filter).length > 0)
          throw new UsageError('give ids, or a filter: --queue, --task, --key, --status');
        return withOperations(self, async (operator, output) => {
          if (ids.length > 0) return sayVerdicts(output, 'cancel', await operator.jobs.cancel(ids));
          return yes === true
            ? cancelAll(operator, output, filter)
            : sayCount(output, await operator.jobs.count(filter));
        });
      },
    );
  examples(command, [
    ['jobs cancel 0198a3c2-… 0198a3c3-…', 'two at once'],
    ['jobs cancel --queue mail --key tenant-7', 'counts them'],
    ['jobs cancel --queue mail --key tenant-7 --yes', 'all of them'],
  ]);
}

/** Reports the count of jobs that fit. Nothing was cancelled, so the exit code is 1, unless no job fits. */
function sayCount(output: Output, { count, more }: JobCount): ExitCode {
  output.answer({ fit: { count, more } }, () => {
    if (count === 0 && !more) return 'no jobs fit';
    return `${more ? 'at least ' : ''}${plural(count, 'job')} fit: give --yes to cancel them`;
  });
  return count === 0 && !more ? 0 : 1;
}

async function cancelAll(operator: Operations, output: Output, filter: UnfinishedFilter): Promise<ExitCode> {
  const result = await operator.jobs.cancelAll(filter, {
    onProgress: ({ cancelled, signalled }) => output.progress(`${cancelled + signalled} cancelled`),
  });
  const { cancelled, signalled, busy } = result;
  output.answer(result, () =>
    [
      `${plural(cancelled, 'job')} cancelled`,
      ...(signalled === 0 ? [] : [`${signalled} running: asked to stop`]),
      ...(busy === 0 ? [] : [`${busy} changed hands at that moment: try again`]),
    ].join(', '),
  );
  return busy === 0 ? 0 : 1;
}

function addDelete(jobs: Command): void {
  const command = acrossInstallations(jobs.command('delete'))
    .description('Deletes jobs in any state, without a trace. Leaves running ones alone: cancel them first.')
    .addArgument(idsArgument())
    .action((ids: readonly string[], _options: unknown, self: Command) =>
      withOperations(self, async (operator, output) =>
        sayVerdicts(output, 'delete', await operator.jobs.erase(ids)),
      ),
    );
  examples(command, [['jobs delete 0198a3c2-…', 'also out of HISTORY and DEAD_LETTER']]);
}

function addAmend(jobs: Command): void {
  const command = acrossInstallations(jobs.command('amend'))
    .description('Changes the priority or the earliest start of waiting jobs. Leaves running ones alone.')
    .addArgument(idsArgument())
    .option('--priority <n>', 'smaller runs first', whole(-2_147_483_648, 2_147_483_647))
    .option('--run-after <time>', 'earliest start: a time, a duration from now, or "now"', (text) =>
      text === 'now' ? text : moment(text),
    )
    .action(
      (
        ids: readonly string[],
        { priority, runAfter }: { priority?: number; runAfter?: Moment | 'now' },
        self: Command,
      ) => {
        if (priority === undefined && runAfter === undefined)
          throw new UsageError('give --priority, --run-after, or both');
        return withOperations(self, async (operator, output) => {
          const verdicts = await operator.jobs.amend(ids, {
            ...(priority === undefined ? {} : { priority }),
            ...(runAfter === undefined ? {} : { runAfter: runAfter === 'now' ? runAfter : dateOf(runAfter) }),
          });
          return sayVerdicts(output, 'amend', verdicts);
        });
      },
    );
  examples(command, [
    ['jobs amend 0198a3c2-… --priority -10', 'goes before others of its key'],
    ['jobs amend 0198a3c2-… --run-after 2h', 'waits two hours from now'],
  ]);
}

function addSignal(jobs: Command): void {
  const command = acrossInstallations(jobs.command('signal'))
    .description(
      'Gives a job the value of a signal that its handler waits for by ctx.waitForSignal, or will wait for. The first one counts.',
    )
    .addArgument(new Argument('<job>', 'id of the job').argParser(uuid))
    .argument('<name>', 'name of the signal')
    .option('--value <json>', 'value for the handler; default null', json)
    .action((id: string, name: string, { value }: { readonly value?: unknown }, self: Command) =>
      withOperations(self, async (operator, output) => {
        const verdict = await operator.jobs.signal(id, name, value);
        const why = {
          signalled: '',
          repeated: ': it has a value already, and that one counts',
          ended: ': the wait for it is over',
        }[verdict];
        output.answer({ job: id, name, verdict }, () => `${id}  ${verdict}${why}`);
        return verdict === 'signalled' ? 0 : 1;
      }),
    );
  examples(command, [[`jobs signal 0198a3c2-… approved --value '{"by": "ada"}'`, 'lets its handler go on']]);
}

type Verb = 'retry' | 'cancel' | 'delete' | 'amend';

function sayVerdicts(output: Output, verb: Verb, verdicts: Verdicts<string>): ExitCode {
  output.answer({ jobs: verdicts }, () =>
    verdicts
      .map(({ id, verdict, status }) => {
        const why = status === undefined ? '' : `: ${whyNot(verb, verdict, status)}`;
        const hasEnded = verdict === 'missing' && typeof status === 'string'; // a job that is there is not missing
        return `${id}  ${hasEnded ? 'unchanged' : verdict}${why}`;
      })
      .join('\n'),
  );
  return verdicts.some(({ status }) => status !== undefined) ? 1 : 0; // of jobs that were left as they are
}

const gone =
  'it never was, was deleted, its history has been dropped, or it belongs to a step of a flow that has not opened ("pgqueue flows show")';

/** Explains why nothing was done with a job, by its status. */
function whyNot(verb: Verb, verdict: string, status: JobStatus | null): string {
  const again = 'it changed hands at that moment: try again';
  if (status === null) return `there is no such job: ${gone}`;
  if (verdict === 'busy') return again;
  switch (status) {
    case 'delayed':
    case 'pending':
    case 'ready':
      return again;
    case 'running':
      if (verb === 'cancel') return again;
      return verb === 'delete' ? 'it runs: cancel it first' : 'it runs';
    case 'dead':
      if (verb === 'retry') return 'it is dead, and its unique key is taken by a newer job';
      return verb === 'delete' ? again : 'it is dead: "pgqueue jobs retry" puts it back';
    case 'done':
    case 'cancelled':
    case 'expired':
      return `it has ended: ${status}`;
    default:
      return unreachable(status);
  }
}
