import { readFileSync } from 'node:fs';
import type { Codec } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { ApiOptions, Auth, DashboardOptions } from '@pgqueue/dashboard';
import { Option } from 'commander';
import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { codecOf, contextOf } from '../context.ts';
import { acrossInstallations, acrossOf, isAcross } from '../installations.ts';
import { whole } from '../parse.ts';
import { createLogger, logLevels } from '../roles/logger.ts';
import type { Role } from '../roles/run.ts';
import { runRole } from '../roles/run.ts';
import type { Settings } from '../settings.ts';
import { loadDefinitions } from '../files/tasks-file.ts';
import { whyUnread } from '../files/unread.ts';
import { examples } from './help.ts';

interface DashboardCommandOptions {
  readonly port: number;
  readonly host: string;
  readonly tokenFile?: string;
  readonly databaseRoles: boolean;
  readonly allowHost?: readonly string[];
  readonly basePath?: string;
  readonly traceUrl?: string;
  readonly api: boolean;
  readonly tasks?: string;
  readonly logLevel: string;
}

export function addDashboard(program: Command): void {
  const command = acrossInstallations(program.command('dashboard'))
    .summary('the dashboard, on its own')
    .description(
      'Serves the dashboard until SIGTERM or SIGINT. Without --token-file it answers only requests from this machine, and allows them everything.',
    )
    .option('--port <n>', 'port to listen on; 0: any free port', whole(0, 65_535), 3_456)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option(
      '--token-file <file>',
      'users, as lines of "name role token", with the role viewer, operator or producer; requests then run as the database roles that "migrate --roles" creates',
    )
    .option('--no-database-roles', 'with --token-file, run requests as the user of the connection')
    .option(
      '--allow-host <name...>',
      'host names to accept; default: all with --token-file, else those of loopback',
    )
    .option('--base-path <path>', 'path under which a proxy serves it, such as /admin/queue')
    .option('--trace-url <url>', 'address of a trace in your tracing tool, with {traceId} in it')
    .option('--api', 'serve the HTTP API for programs, below /api/v1', false)
    .option(
      '--tasks <file>',
      'with --api, take jobs of the tasks of this module only, and check their payloads',
    )
    .addOption(new Option('--log-level <level>', 'lowest level to log').choices(logLevels).default('info'))
    .action(async (options: DashboardCommandOptions, self: Command) => {
      const { output, redact, ...databases } = await databasesOf(self);
      const {
        port,
        host,
        tokenFile,
        databaseRoles,
        allowHost,
        basePath,
        traceUrl,
        logLevel: level,
      } = options;
      if (options.tasks !== undefined && !options.api) self.error('error: --tasks goes with --api only');
      const api = options.api && (await apiFrom(options.tasks));
      const logger = createLogger({ level, role: 'dashboard', redact });
      const auth = tokenFile === undefined ? undefined : await authFrom(tokenFile);
      const { createDashboard, serveDashboard } = await import('@pgqueue/dashboard');
      const dashboard = createDashboard({
        ...databases,
        ...(await codecOf(self)),
        logger,
        api,
        ...(auth === undefined ? {} : { auth }),
        ...(databaseRoles ? {} : { databaseRoles: false }),
        ...(allowHost === undefined ? {} : { hosts: allowHost }),
        ...(basePath === undefined ? {} : { basePath }),
        ...(traceUrl === undefined ? {} : { traceUrl }),
      });
      let url = '';
      let close = dashboard.close;
      const role: Role = {
        start: async () => {
          await dashboard.check();
          const server = await serveDashboard(dashboard, { port, host }).catch((error: unknown) => {
            throw inOptions(error);
          });
          ({ url, close } = server);
        },
        stop: () => close(),
      };
      await runRole(role, {
        output,
        ready: () => ({ role: 'dashboard', url }),
        text: () => `dashboard ${url}`.trim(),
      });
    });
  examples(command, [
    ['dashboard', 'http://127.0.0.1:3456/, for this machine only'],
    ['dashboard --installations all.json', 'several installations: a page over all, and the pages of each'],
    ['dashboard --api --tasks tasks.js', 'with the HTTP API, for jobs of these tasks'],
    ['dashboard --host 0.0.0.0 --token-file ./tokens', 'for others: put a proxy with TLS before it'],
  ]);
}

/** Reads which database the command is for, or which installations. */
async function databasesOf(
  command: Command,
): Promise<
  Pick<Context, 'output' | 'redact'> & Pick<DashboardOptions, 'connectionString' | 'schema' | 'installations'>
> {
  if (isAcross(command)) return acrossOf(command);
  const { settings, ...context } = contextOf(command);
  return { ...settings, ...context };
}

/**
 * Returns the options of the HTTP API.
 * @param file module of its tasks; undefined: it takes jobs of any task
 * @throws {PgQueueError} `configuration`
 */
async function apiFrom(file: string | undefined): Promise<ApiOptions> {
  if (file === undefined) return {};
  const loaded = await loadDefinitions(file);
  if (loaded.kind === 'problem') throw new PgQueueError('configuration', loaded.problem);
  return { tasks: loaded.tasks };
}

/**
 * Reads the token file.
 * @throws {PgQueueError} `configuration`
 */
async function authFrom(file: string): Promise<Auth> {
  const { readTokens, tokenAuth } = await import('@pgqueue/dashboard');
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const why = `--token-file ${file} can't be read: ${whyUnread(error)}`;
    throw new PgQueueError('configuration', why, { cause: error });
  }
  try {
    return tokenAuth(readTokens(text));
  } catch (error) {
    if (!(error instanceof PgQueueError)) throw error;
    const why = `--token-file ${file}: ${error.message}; each line is "name role token"`;
    throw new PgQueueError(error.code, why, { cause: error });
  }
}

/** Rewords an error about the package's option `auth`, which this command sets by --token-file. */
function inOptions(error: unknown): unknown {
  if (!(error instanceof PgQueueError) || !error.message.includes('the option "auth"')) return error;
  const message = error.message.replace('give it the option "auth"', 'name who may, by --token-file FILE');
  return new PgQueueError(error.code, message, { cause: error });
}

/**
 * Starts a dashboard inside another process, for this machine only. Uses any free port if its own is taken.
 */
export async function startLocalDashboard(
  settings: Settings,
  {
    port,
    logger,
    codec,
  }: {
    readonly port: number;
    readonly logger: ReturnType<typeof createLogger>;
    readonly codec: Codec | undefined;
  },
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const { createDashboard, serveDashboard } = await import('@pgqueue/dashboard');
  const dashboard = createDashboard({ ...settings, logger, ...(codec === undefined ? {} : { codec }) });
  try {
    return await serveDashboard(dashboard, { port }).catch(() => serveDashboard(dashboard, { port: 0 }));
  } catch (error) {
    await dashboard.close();
    throw error;
  }
}
