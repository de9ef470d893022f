import { hostname, userInfo } from 'node:os';
import type { DatabaseOptions, Operator } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import type { Command } from 'commander';
import { readEnv } from './env.ts';
import type { ExitCode } from './errors.ts';
import { Exit } from './errors.ts';
import type { Output } from './output/output.ts';
import { createOutput } from './output/output.ts';
import type { Redact } from './output/redact.ts';
import { redactor } from './output/redact.ts';
import type { GlobalOptions, Settings } from './settings.ts';
import { settle } from './settings.ts';

/** What a command works with. */
export interface Context {
  readonly output: Output;
  readonly settings: Settings;
  readonly redact: Redact;
}

/** @throws {PgQueueError} `configuration`, together with the `problems` that the command itself has found */
export function contextOf(command: Command, problems: readonly string[] = []): Context {
  const options = command.optsWithGlobals<GlobalOptions>();
  const settings = settle(options, readEnv(), problems);
  const redact = redactor(settings.connectionString);
  return { settings, redact, output: outputOf(options, redact) };
}

export function outputOf(options: GlobalOptions, redact: Redact): Output {
  const { stdout, stderr } = process;
  return createOutput({
    json: options.json === true,
    redact,
    lines: !readEnv().noColor,
    streams: { stdout, stderr },
  });
}

export function databaseOptions({ settings }: Context, command: string): DatabaseOptions {
  return { ...settings, applicationName: `pgqueue ${command}`, queryTimeoutMs: 120_000 };
}

/** Of the operating system; a container may run as a number that has no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** Runs a command that asks or changes something, with an operator on a schema that it can work with. */
export async function withOperator(
  command: Command,
  work: (operator: Operator, output: Output) => Promise<ExitCode | void>,
): Promise<void> {
  const context = contextOf(command);
  const actor = { name: `${userName()}@${hostname()}`.slice(0, 200), via: 'cli' } as const;
  const options = { ...databaseOptions(context, command.name()), connectionsMax: 4, actor };
  const operator = createOperator(options);
  try {
    await operator.check();
    const code = (await work(operator, context.output)) ?? 0;
    if (code !== 0) throw new Exit(code);
  } finally {
    await operator.close();
  }
}
