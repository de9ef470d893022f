import type { ScheduleInfo } from '@pgqueue/postgres';
import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import { UsageError } from '../errors.ts';
import { age, brief } from '../output/format.ts';
import type { Output } from '../output/output.ts';
import { duration, json, whole } from '../parse.ts';
import { examples } from './help.ts';

interface ScheduleSetOptions {
  readonly cron: string;
  readonly timezone: string;
  readonly task: string;
  readonly payload?: unknown;
  readonly payloadVersion?: number;
  readonly queue?: string;
  readonly key?: string;
  readonly priority?: number;
  readonly timeout?: number;
  readonly maxTries?: number;
}

export function addSchedules(program: Command): void {
  const schedules = program.command('schedules').description('Lists and changes recurring jobs.');
  addList(schedules);
  addSet(schedules);
  addVerb(schedules, 'pause', {
    does: 'Stops a schedule. Slots that pass meanwhile are not made up for.',
    said: 'is paused',
  });
  addVerb(schedules, 'resume', { does: 'Goes on with the next slot.', said: 'goes on' });
  addVerb(schedules, 'remove', {
    does: 'Removes a schedule. Jobs that it has enqueued stay.',
    said: 'is removed',
  });
  examples(schedules, [
    ['schedules list', 'recurring jobs, and their next times'],
    [
      `schedules set nightly --cron '0 3 * * *' --timezone Europe/Berlin --task report`,
      'at three in the morning there',
    ],
  ]);
}

function addList(schedules: Command): void {
  const command = schedules
    .command('list')
    .description('Lists every schedule.')
    .action((_options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        const list = await operator.schedules.list();
        const { scheduleProblems } = await import('@pgqueue/postgres/internal');
        // schedules set in code or by SQL may not have been checked
        const broken = new Set(
          list
            .filter(({ cron, timezone }) => scheduleProblems(cron, timezone).length > 0)
            .map(({ name }) => name),
        );
        output.answer({ schedules: list }, () => listText(list, broken, output));
      }),
    );
  examples(command, [['schedules list --json', 'with payloads and options']]);
}

/** Threshold for "never again": an expression without further slots is planned for the year 9999. */
const foreverMs = 1_000 * 365 * 86_400_000;

function listText(list: readonly ScheduleInfo[], broken: ReadonlySet<string>, output: Output): string {
  if (list.length === 0) return 'no schedules';
  const next = ({ name, paused, nextInMs }: ScheduleInfo): string => {
    if (broken.has(name)) return "can't be read";
    if (paused) return 'paused';
    if (nextInMs === null) return 'not planned yet';
    if (nextInMs > foreverMs) return 'never again';
    return nextInMs < 0 ? `${age(-nextInMs)} overdue` : `in ${age(nextInMs)}`;
  };
  return output.table(
    ['schedule', 'cron', 'timezone', 'task', 'payload', 'next', 'last'],
    list.map((schedule) => [
      schedule.name,
      schedule.cron,
      schedule.timezone,
      schedule.task,
      brief(JSON.stringify(schedule.payload), 40),
      next(schedule),
      schedule.lastSlot?.toISOString() ?? 'never',
    ]),
  );
}

function addSet(schedules: Command): void {
  const command = schedules
    .command('set')
    .description(
      'Creates a schedule, or replaces the one of this name. One job for each slot, whichever scheduler leads.',
    )
    .argument('<name>', 'name of the schedule')
    .requiredOption(
      '--cron <expression>',
      'five fields, six with seconds first, seven with a year last, or a name such as @daily',
    )
    .option('--timezone <name>', 'an IANA name, such as Europe/Berlin', 'UTC')
    .requiredOption('--task <task>', 'task of its jobs')
    .option('--payload <json>', 'payload for the handler', json)
    .option('--payload-version <n>', 'version of the payload', whole(1, 2_147_483_647))
    .option('--queue <queue>', 'queue of its jobs')
    .option('--key <key>', 'fairness key of its jobs')
    .option('--priority <n>', 'smaller runs first', whole(-2_147_483_648, 2_147_483_647))
    .option('--timeout <duration>', 'longest time of one attempt', duration)
    .option('--max-tries <n>', 'most attempts', whole(1, 1_000))
    .action(async (name: string, options: ScheduleSetOptions, self: Command) => {
      const { cron, timezone, task, payload = {}, maxTries, ...rest } = options;
      const { payloadVersion, queue, key, priority, timeout } = rest;
      const { scheduleProblems } = await import('@pgqueue/postgres/internal');
      const problems = scheduleProblems(cron, timezone, Date.now());
      if (problems.length > 0) throw new UsageError(problems.join('; '));
      await withOperator(self, async (operator, output) => {
        const outcome = await operator.schedules.set({
          name,
          cron,
          timezone,
          task,
          payload,
          options: {
            ...(payloadVersion === undefined ? {} : { payloadVersion }),
            ...(queue === undefined ? {} : { queue }),
            ...(key === undefined ? {} : { key }),
            ...(priority === undefined ? {} : { priority }),
            ...(timeout === undefined ? {} : { timeout }),
            ...(maxTries === undefined ? {} : { retry: { maxTries } }),
          },
        });
        output.answer({ schedule: name, outcome }, () => `schedule ${name} is ${outcome}`);
      });
    });
  examples(command, [
    [`schedules set nightly --cron '0 3 * * *' --task report`, 'every day at 3:00 UTC'],
    [`schedules set sync --cron '*/30 * * * * *' --task sync --payload '{"full":false}'`, 'every 30 seconds'],
  ]);
}

function addVerb(
  schedules: Command,
  verb: 'pause' | 'resume' | 'remove',
  { does, said }: { readonly does: string; readonly said: string },
): void {
  const command = schedules
    .command(verb)
    .description(does)
    .argument('<name>', 'name of the schedule')
    .action((name: string, _options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        await operator.schedules[verb](name);
        output.answer({ schedule: name, outcome: `${verb}d` }, () => `schedule ${name} ${said}`);
      }),
    );
  examples(command, [[`schedules ${verb} nightly`, 'by its name']]);
}
