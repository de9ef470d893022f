import { errorLine } from '@pgqueue/core/internal';
import type {
  BulkResult,
  DeadFilter,
  DeadProgress,
  DeadReason,
  DeadSelection,
  Operator,
  RewrapResult,
} from '@pgqueue/postgres';
import { Argument, InvalidArgumentError, Option } from 'commander';
import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import { UsageError } from '../errors.ts';
import { age, brief, plural } from '../output/format.ts';
import { duration, uuids, whole } from '../parse.ts';
import { examples } from './help.ts';

interface FilterOptions {
  readonly queue?: string;
  readonly task?: string;
  readonly reason?: DeadReason;
  readonly olderThan?: number;
  readonly newerThan?: number;
}

export function addDead(program: Command): void {
  const dead = program.command('dead').description('Lists, redrives, purges and re-encrypts dead letters.');
  addList(dead);
  addBulk(dead, {
    name: 'redrive',
    done: 'redriven',
    does: 'Puts dead jobs back into their queues with fresh limits, oldest deaths first. Works in chunks, so an interrupted command can be repeated.',
    work: (operator) => operator.dead.redrive,
  }).alias('retry');
  addBulk(dead, {
    name: 'purge',
    done: 'purged',
    does: 'Removes dead jobs without a trace. In chunks: what is interrupted can be repeated.',
    work: (operator) => operator.dead.purge,
    isFinal: true,
  });
  addRewrap(dead);
  examples(dead, [
    ['dead list', 'the newest dead letters, with reasons'],
    ['jobs show 0198a3c2-…', 'one of them, with its payload and errors'],
    ['dead redrive --task send-email --newer-than 2h', 'after a fix was deployed'],
  ]);
}

function withFilter(command: Command): Command {
  const reasons: readonly DeadReason[] = ['max_tries', 'crash_limit', 'gave_up'];
  return command
    .option('--queue <queue>', 'only of this queue')
    .option('--task <task>', 'only of this task')
    .addOption(new Option('--reason <reason>', 'only of this reason').choices(reasons))
    .option('--older-than <duration>', 'only those that died at least this long ago', duration)
    .option('--newer-than <duration>', 'only those that died at most this long ago', duration);
}

function filterOf({ queue, task, reason, olderThan, newerThan }: FilterOptions): DeadFilter {
  return {
    ...(queue === undefined ? {} : { queue }),
    ...(task === undefined ? {} : { task }),
    ...(reason === undefined ? {} : { reason }),
    ...(olderThan === undefined ? {} : { olderThanMs: olderThan }),
    ...(newerThan === undefined ? {} : { newerThanMs: newerThan }),
  };
}

function addList(dead: Command): void {
  const command = withFilter(dead.command('list'))
    .description('Lists dead letters in pages, newest first.')
    .option('--limit <n>', 'most jobs to show, up to 1000', whole(1, 1_000), 50)
    .option(
      '--after <cursor>',
      'show the page after this cursor (the last page prints it as "more:")',
      cursor,
    )
    .action((options: FilterOptions & { limit: number; after?: string }, self: Command) =>
      withOperator(self, async (operator, output) => {
        const { limit, after } = options;
        const page = await operator.dead.list({
          ...filterOf(options),
          limit,
          ...(after === undefined ? {} : { after }),
        });
        output.answer({ jobs: page.items, next: page.next }, () => {
          if (page.items.length === 0) return 'no dead letters';
          const rows = page.items.map((job) => [
            job.id,
            job.queue,
            job.task,
            job.key,
            job.reason,
            job.tries,
            job.crashes,
            age(job.ageMs),
            job.lastError === null ? '' : brief(errorLine(job.lastError)),
          ]);
          const heads = ['id', 'queue', 'task', 'key', 'reason', 'tries', 'crashes', 'died', 'last error'];
          const more = page.next === null ? [] : [`more: --after ${page.next}`];
          return [output.table(heads, rows), ...more].join('\n');
        });
      }),
    );
  examples(command, [['dead list --queue mail --reason crash_limit', 'poison jobs of one queue']]);
}

interface Bulk {
  readonly name: 'redrive' | 'purge';
  readonly done: string;
  readonly does: string;
  readonly work: (operator: Operator) => Operator['dead']['redrive'];
  /** Nothing brings the jobs back, so all that a filter finds need `--yes`. */
  readonly isFinal?: boolean;
}

function addBulk(dead: Command, { name, done, does, work, isFinal = false }: Bulk): Command {
  const command = withFilter(dead.command(name))
    .description(does)
    .addArgument(new Argument('[job...]', 'ids; else give a filter, or --all').argParser(uuids))
    .option('--all', 'every dead letter')
    .action(
      (
        ids: readonly string[] | undefined,
        { yes, ...options }: FilterOptions & { all?: boolean; yes?: boolean },
        self: Command,
      ) => {
        const selection = selectionOf(ids ?? [], options);
        if (isFinal && !('ids' in selection) && yes !== true)
          throw new UsageError('they are gone for good: see them by "pgqueue dead list", then give --yes');
        return withOperator(self, async (operator, output) => {
          const result = await work(operator)(selection, {
            onProgress: (step) => {
              output.progress(progressText(step, done));
            },
          });
          output.answer({ [done]: result.done, skipped: result.skipped, total: result.total }, () =>
            resultText(result, done),
          );
          return 'ids' in selection && result.skipped > 0 ? 1 : 0;
        });
      },
    );
  const sure = isFinal ? ' --yes' : '';
  examples(command, [
    [`dead ${name} 0198a3c2-…`, 'one, by its id'],
    [`dead ${name} --queue mail --task send-email${sure}`, 'all that the filter finds'],
    [`dead ${name} --all${sure}`, 'all of them; progress is shown on a terminal'],
  ]);
  return isFinal ? command.option('--yes', 'remove all that the filter finds, for good') : command;
}

function addRewrap(dead: Command): void {
  const command = withFilter(dead.command('rewrap'))
    .description(
      'Encrypts dead jobs under the first key of the codec, so that older keys are not needed for them any more. In chunks: what is interrupted can be repeated.',
    )
    .addArgument(new Argument('[job...]', 'ids; else give a filter, or --all').argParser(uuids))
    .option('--all', 'every dead letter')
    .action(
      (ids: readonly string[] | undefined, options: FilterOptions & { all?: boolean }, self: Command) => {
        const selection = selectionOf(ids ?? [], options);
        return withOperator(self, async (operator, output) => {
          const result = await operator.dead.rewrap(selection, {
            onProgress: (step) => {
              output.progress(progressText(step, 'rewrapped'));
            },
          });
          output.answer(result, () => rewrapText(result));
          return result.unreadable > 0 ? 1 : 0;
        });
      },
    );
  examples(command, [['dead rewrap --all --codec ./codec.ts', 'after a new key was put in front']]);
}

function rewrapText({ done, current, unreadable, problems }: RewrapResult): string {
  const already = current === 0 ? '' : `, ${current} under the first key already`;
  if (unreadable === 0) return `${plural(done, 'job')} rewrapped${already}`;
  const rest = unreadable > problems.length ? [`and ${unreadable - problems.length} more`] : [];
  return [
    `${plural(done, 'job')} rewrapped${already}, ${unreadable} can't be decrypted:`,
    ...problems,
    ...rest,
  ].join('\n');
}

function selectionOf(
  ids: readonly string[],
  { all, ...options }: FilterOptions & { all?: boolean },
): DeadSelection {
  const filter = filterOf(options);
  const filters = Object.keys(filter).length;
  if (ids.length > 0 && (filters > 0 || all === true))
    throw new UsageError('give ids, or a filter, or --all; not two of them');
  if (ids.length > 0) return { ids };
  if (filters === 0 && all !== true)
    throw new UsageError('say which: ids, --queue, --task, --reason, --older-than, --newer-than, or --all');
  return { ...filter, ...(all === true ? { all } : {}) };
}

function progressText({ seen, total }: DeadProgress, done: string): string {
  const share = total === 0 ? 100 : Math.min(100, Math.floor((seen / total) * 100));
  return `${done} ${seen} of ${total} (${share}%)`;
}

function resultText({ done, skipped }: BulkResult, verb: string): string {
  const rest =
    skipped === 0 ? '' : `, ${skipped} skipped (not dead, or their unique key is taken by a newer job)`;
  return `${plural(done, 'job')} ${verb}${rest}`;
}

function cursor(text: string): string {
  if (/^\d{1,18}_[0-9a-f-]{36}$/.test(text)) return text;
  throw new InvalidArgumentError('It must be the cursor that the page before ended with.');
}
