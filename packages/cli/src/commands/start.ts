import { defaultPolicy, logObserver } from '@pgqueue/core';
import { Option } from 'commander';
import type { Command } from 'commander';
import { codecOf, contextOf } from '../context.ts';
import { plural } from '../output/format.ts';
import { whole } from '../parse.ts';
import type { PolicyOptions } from '../files/policy-file.ts';
import { loadPolicies, withPolicies } from '../files/policy-file.ts';
import type { HealthFlags } from '../roles/health.ts';
import { healthOf, healthPort, metricKeys } from '../roles/health.ts';
import { drainTime } from '../roles/drain.ts';
import { createLogger, logLevels } from '../roles/logger.ts';
import { runRole } from '../roles/run.ts';
import type { Handlers } from '../files/tasks-file.ts';
import { loadTasks } from '../files/tasks-file.ts';
import { examples } from './help.ts';

interface StartOptions extends PolicyOptions, HealthFlags {
  readonly tasks: string;
  readonly concurrency: number;
  readonly pool: string;
  readonly drain: number;
  readonly listen: boolean;
  readonly migrate: boolean;
  readonly logLevel: string;
}

export function addStart(program: Command): void {
  const command = withPolicies(
    program
      .command('start')
      .summary('run a scheduler and a worker in one process')
      .description(
        'Migrates the schema, then runs a scheduler (leader or standby) and a worker node in one process until SIGTERM or SIGINT. Start any number of them. Logs are JSON lines on stderr.',
      ),
  )
    .requiredOption(
      '--tasks <file>',
      'a module (.js, .mjs, .ts) that exports task handlers; a function `around` is their middleware, a `codec` encrypts',
    )
    .option('--concurrency <n>', 'jobs to run at a time', whole(1, 10_000), 10)
    .option('--pool <pool>', 'pool of nodes it belongs to', 'default')
    .addOption(drainTime())
    .option('--no-listen', 'only poll, for PgBouncer in transaction mode, where LISTEN does not work')
    .option('--no-migrate', 'do not migrate; fails if the schema is too old')
    .addOption(healthPort())
    .addOption(metricKeys())
    .addOption(new Option('--log-level <level>', 'lowest level to log').choices(logLevels).default('info'))
    .action(async (options: StartOptions, self: Command) => {
      const loaded = await loadTasks(options.tasks);
      const { problems, ...policies } = await loadPolicies(options);
      const context = contextOf(self, [...(loaded.kind === 'problem' ? [loaded.problem] : []), ...problems]);
      const handlers: Handlers = loaded.kind === 'tasks' ? loaded.handlers : { tasks: [] };
      const { tasks } = handlers;
      const { concurrency, pool, drain: drainMs, listen, migrate, logLevel: level } = options;
      const logger = createLogger({ level, role: 'start', redact: context.redact });
      const { createQueue } = await import('pgqueue');
      const observe = logObserver(logger);
      const own = {
        ...context.settings,
        ...policies,
        ...handlers,
        concurrency,
        pool,
        drainMs,
        listen,
        migrate,
        ...healthOf(options),
      };
      const queue = createQueue({ ...own, ...(await codecOf(self)), observe, logger });
      const names = tasks.map(({ task }) => task.name);
      const policy = (policies.policy ?? defaultPolicy()).name;
      await runRole(queue, {
        output: context.output,
        ready: () => ({ role: 'start', node: queue.node, leads: queue.leads, tasks: names, policy }),
        text: `${queue.node ?? 'queue'} (${plural(tasks.length, 'task')}, ${plural(concurrency, 'slot')}, policy ${policy})`,
      });
    });
  examples(command, [
    ['start --tasks ./tasks.ts', 'a whole queue; a second process is its standby, and works too'],
    ['start --tasks ./tasks.ts --policy ./policy.ts --concurrency 50', 'with your own policy'],
  ]);
}
