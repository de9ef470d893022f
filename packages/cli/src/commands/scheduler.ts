import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { defaultPolicy, logObserver } from '@pgqueue/core';
import { Option } from 'commander';
import type { Command } from 'commander';
import { contextOf } from '../context.ts';
import { durationWithin } from '../parse.ts';
import type { PolicyOptions } from '../files/policy-file.ts';
import { loadPolicies, withPolicies } from '../files/policy-file.ts';
import type { HealthFlags } from '../roles/health.ts';
import { healthOf, healthPort, metricKeys } from '../roles/health.ts';
import { createLogger, logLevels } from '../roles/logger.ts';
import { runRole } from '../roles/run.ts';
import { examples } from './help.ts';

interface SchedulerCommandOptions extends PolicyOptions, HealthFlags {
  readonly name?: string;
  readonly lease: number;
  readonly listen: boolean;
  readonly logLevel: string;
}

export function addScheduler(program: Command): void {
  const command = withPolicies(
    program
      .command('scheduler')
      .summary('run a scheduler, as leader or standby')
      .description(
        'Runs a scheduler until SIGTERM or SIGINT. One leads; start a second one anywhere as a standby. Logs are JSON lines on stderr.',
      ),
  )
    .option('--name <name>', 'name in logs and lists; default host name and process id')
    .addOption(
      new Option('--lease <duration>', 'a leader silent for this long is replaced')
        .argParser(durationWithin('100ms', '10m'))
        .default(5_000, '5s'),
    )
    .option('--no-listen', 'only poll, for PgBouncer in transaction mode, where LISTEN does not work')
    .addOption(healthPort())
    .addOption(metricKeys())
    .addOption(new Option('--log-level <level>', 'lowest level to log').choices(logLevels).default('info'))
    .action(async (options: SchedulerCommandOptions, self: Command) => {
      const { problems, ...policies } = await loadPolicies(options);
      const context = contextOf(self, problems);
      const { name = `${hostname()}-${process.pid}`, lease, listen, logLevel } = options;
      const logger = createLogger({ level: logLevel, role: 'scheduler', redact: context.redact });
      // collects when the heap has doubled instead of quadrupled: a quarter less memory for 8 % more CPU time
      setFlagsFromString('--heap-growing-percent=100');
      const { createScheduler } = await import('@pgqueue/scheduler');
      const scheduler = createScheduler({
        ...context.settings,
        ...policies,
        name,
        listen,
        leaseMs: lease,
        ...healthOf(options),
        observe: logObserver(logger),
      });
      await runRole(scheduler, {
        output: context.output,
        ready: { role: 'scheduler', name, policy: (policies.policy ?? defaultPolicy()).name },
        text: `scheduler ${name}${policies.policy === undefined ? '' : ` (policy ${policies.policy.name})`}`,
      });
    });
  examples(command, [
    ['scheduler', 'leads, or stands by'],
    ['scheduler --policy ./policy.ts', 'with your own policy instead of the default'],
    ['scheduler --no-listen --database-url postgres://app@pgbouncer:6432/app', 'through PgBouncer'],
  ]);
}
