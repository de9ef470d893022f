import type { JobsOperator, Operator } from '@pgqueue/postgres';
import type { Installation, Router } from '@pgqueue/router';
import type { Command } from 'commander';
import { actorOf, codecOf, outputOf, withOperator } from './context.ts';
import type { ExitCode } from './errors.ts';
import { Exit, UsageError } from './errors.ts';
import { loadInstallations } from './files/installations-file.ts';
import type { Output } from './output/output.ts';
import type { Redact } from './output/redact.ts';
import { redactor } from './output/redact.ts';
import type { GlobalOptions } from './settings.ts';

/** Operations that one installation and several have in common. */
export interface Operations {
  readonly jobs: JobsOperator;
  readonly queues: Pick<Operator['queues'], 'pause' | 'resume' | 'set' | 'forget'>;
  readonly explain: Operator['explain'];
}

/** Gives a command the option `--installations`. */
export function acrossInstallations(command: Command): Command {
  return command.option(
    '--installations <file>',
    'over all installations of this list: JSON, or a module that exports "installations"',
  );
}

interface AcrossOptions extends GlobalOptions {
  readonly installations?: string;
}

/** Reports whether a command was given a list of installations. */
export function isAcross(command: Command): boolean {
  return command.optsWithGlobals<AcrossOptions>().installations !== undefined;
}

/** Runs a command with the operator of one installation, or with that of all in a list. */
export async function withOperations(
  command: Command,
  work: (operations: Operations, output: Output) => Promise<ExitCode | void>,
): Promise<void> {
  if (!isAcross(command)) return withOperator(command, work);
  return withRouter(command, (router, output) => work(router.operator, output));
}

/** The list that a command was given, and output that tells no password of it. */
export interface Across {
  readonly installations: readonly Installation[];
  readonly redact: Redact;
  readonly output: Output;
}

/**
 * Loads the list of installations that a command was given.
 * @throws {UsageError} without a list, or with a database beside it
 * @throws {PgQueueError} `configuration`
 */
export async function acrossOf(command: Command): Promise<Across> {
  const options = command.optsWithGlobals<AcrossOptions>();
  const { installations: file, databaseUrl, schema } = options;
  if (file === undefined) throw new UsageError('give the list: --installations FILE');
  if (databaseUrl !== undefined || schema !== undefined)
    throw new UsageError('the list has the databases and schemas: leave out --database-url and --schema');
  const installations = await loadInstallations(file);
  const redactors = installations.map(({ connectionString }) => redactor(connectionString));
  const redact: Redact = (text) => redactors.reduce((clean, each) => each(clean), text);
  return { installations, redact, output: outputOf(options, redact) };
}

/**
 * Runs a command with a router of the installations that it was given.
 * @throws {UsageError} as {@link acrossOf}
 */
export async function withRouter(
  command: Command,
  work: (router: Router, output: Output) => Promise<ExitCode | void>,
): Promise<void> {
  const { installations, output } = await acrossOf(command);
  const { createRouter } = await import('@pgqueue/router');
  const router = createRouter({ installations, actor: actorOf(), ...(await codecOf(command)) });
  try {
    const code = (await work(router, output)) ?? 0;
    if (code !== 0) throw new Exit(code);
  } finally {
    await router.close();
  }
}
