import { logObserver } from '@pgqueue/core';
import type { Logger } from '@pgqueue/core';
import type { Worker } from '@pgqueue/worker';
import { Option } from 'commander';
import type { Command } from 'commander';
import { codecOf, contextOf } from '../context.ts';
import { plural } from '../output/format.ts';
import { whole } from '../parse.ts';
import type { HealthFlags } from '../roles/health.ts';
import { healthOf, healthPort } from '../roles/health.ts';
import { drainTime } from '../roles/drain.ts';
import { createLogger, logLevels } from '../roles/logger.ts';
import { runRole } from '../roles/run.ts';
import type { Settings } from '../settings.ts';
import { UsageError } from '../errors.ts';
import type { Handlers, TasksFile } from '../files/tasks-file.ts';
import { execTasks } from '../files/exec-tasks.ts';
import { loadTasks } from '../files/tasks-file.ts';
import { examples } from './help.ts';

interface WorkerCommandOptions extends Pick<HealthFlags, 'healthPort'> {
  readonly tasks?: string;
  readonly exec: readonly string[];
  readonly execEnv: readonly string[];
  readonly node?: string;
  readonly concurrency: number;
  readonly pool: string;
  readonly drain: number;
  readonly listen: boolean;
  readonly logLevel: string;
}

export function addWorker(program: Command): void {
  const command = program
    .command('worker')
    .summary('run a worker node')
    .description(
      'Runs a worker node until SIGTERM or SIGINT; then it claims no more jobs, waits for running ones, and leaves. Logs are JSON lines on stderr.',
    )
    .option(
      '--tasks <file>',
      'a module (.js, .mjs, .ts) that exports task handlers; a function `around` is their middleware, a `codec` encrypts',
    )
    .option(
      '--exec <task=program>',
      'run the jobs of a task by a program, which gets the payload on stdin; may be given again',
      collected,
      [],
    )
    .option('--exec-env <name>', 'a variable that these programs get; may be given again', collected, [])
    .option(
      '--node <id>',
      'id of the node, unique among live ones; default: host name, process id and a random suffix',
    )
    .option('--concurrency <n>', 'jobs to run at a time', whole(1, 10_000), 10)
    .option('--pool <pool>', 'pool of nodes it belongs to', 'default')
    .addOption(drainTime())
    .option('--no-listen', 'only poll, for PgBouncer in transaction mode, where LISTEN does not work')
    .addOption(healthPort())
    .addOption(new Option('--log-level <level>', 'lowest level to log').choices(logLevels).default('info'))
    .action(async (options: WorkerCommandOptions, self: Command) => {
      const loaded = await handlersOf(options);
      const context = contextOf(self, loaded.kind === 'problem' ? [loaded.problem] : []);
      const handlers: Handlers = loaded.kind === 'tasks' ? loaded.handlers : { tasks: [] };
      const { tasks } = handlers;
      const { logLevel: level } = options;
      const logger = createLogger({ level, role: 'worker', redact: context.redact });
      const worker = await makeWorker(context.settings, options, {
        ...handlers,
        ...(await codecOf(self)),
        logger,
      });
      await runRole(worker, {
        output: context.output,
        ready: { role: 'worker', node: worker.node, tasks: tasks.map(({ task }) => task.name) },
        text: `worker ${worker.node} (${plural(tasks.length, 'task')}, ${plural(options.concurrency, 'slot')})`,
      });
    });
  examples(command, [
    ['worker --tasks ./tasks.ts', 'ten jobs at a time, of every task in the file'],
    ["worker --exec 'resize=./resize --fast' --exec-env BUCKET", 'a program in any language'],
    [
      'worker --tasks dist/reports.js --pool slow --concurrency 2 --node reports-1',
      'for the queues of pool "slow"',
    ],
  ]);
}

const collected = (value: string, all: readonly string[]): readonly string[] => [...all, value];

/**
 * Loads the handlers of `--tasks` and of `--exec`.
 * @throws {UsageError}
 */
async function handlersOf({
  tasks: file,
  exec,
  execEnv,
}: Pick<WorkerCommandOptions, 'tasks' | 'exec' | 'execEnv'>): Promise<TasksFile> {
  const programs = await execTasks(exec, execEnv);
  if (file === undefined && programs.length === 0)
    throw new UsageError('give --tasks <file>, or --exec <task=program>, or both');
  if (file === undefined) return { kind: 'tasks', handlers: { tasks: programs } };
  const loaded = await loadTasks(file);
  if (loaded.kind === 'problem') return loaded;
  const { handlers } = loaded;
  return { kind: 'tasks', handlers: { ...handlers, tasks: [...handlers.tasks, ...programs] } };
}

type NodeOptions = Pick<
  WorkerCommandOptions,
  'node' | 'concurrency' | 'pool' | 'drain' | 'listen' | 'healthPort'
>;

export async function makeWorker(
  settings: Settings,
  { node, concurrency, pool, drain, listen, ...health }: NodeOptions,
  { logger, ...handlers }: Handlers & { readonly logger: Logger },
): Promise<Worker> {
  const { createWorker } = await import('@pgqueue/worker');
  return createWorker({
    ...settings,
    ...handlers,
    ...(node === undefined ? {} : { node }),
    concurrency,
    pool,
    drainMs: drain,
    listen,
    ...healthOf(health),
    observe: logObserver(logger),
    logger,
  });
}
