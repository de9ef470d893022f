import { hostname, userInfo } from 'node:os';
import type { Codec } from '@pgqueue/core';
import type { DatabaseOptions, Operator } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import type { Command } from 'commander';
import { readEnv } from './env.ts';
import type { ExitCode } from './errors.ts';
import { Exit } from './errors.ts';
import type { Output } from './output/output.ts';
import { loadCodec } from './files/codec-file.ts';
import { createOutput } from './output/output.ts';
import type { Redact } from './output/redact.ts';
import { redactor } from './output/redact.ts';
import type { GlobalOptions, Settings } from './settings.ts';
import { settle } from './settings.ts';

/** Settings, output and redaction of a command. */
export interface Context {
  readonly output: Output;
  readonly settings: Settings;
  readonly redact: Redact;
}

/**
 * Reads settings from options and environment.
 * @throws {PgQueueError} `configuration`, with the command's own `problems` included
 */
export function contextOf(command: Command, problems: readonly string[] = []): Context {
  const options = command.optsWithGlobals<GlobalOptions>();
  const settings = settle(options, readEnv(), problems);
  const redact = redactor(settings.connectionString);
  return { settings, redact, output: outputOf(options, redact) };
}

/**
 * Loads the codec that the options or the environment name; an empty object: none.
 * @throws {PgQueueError} `configuration`
 */
export async function codecOf(command: Command): Promise<{ readonly codec?: Codec }> {
  const { codec: given } = command.optsWithGlobals<GlobalOptions>();
  const file = given ?? readEnv().codec;
  if (file === undefined) return {};
  return { codec: await loadCodec(file, given === undefined ? 'PGQUEUE_CODEC' : '--codec') };
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

/** Commands that only look, each statement within tens of milliseconds. */
const looking: ReadonlySet<string> = new Set(['status', 'top', 'explain', 'list', 'show', 'results']);

/** Returns the options of a command's connections. `command`: its last word. */
export function databaseOptions({ settings }: Context, command: string): DatabaseOptions {
  const queryTimeoutMs = looking.has(command) ? 30_000 : 120_000;
  return { ...settings, applicationName: `pgqueue ${command}`, queryTimeoutMs };
}

/** Name of the operating system's user; the numeric id if it has no name, as in some containers. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** Returns who acts, for the table `audit`. */
export function actorOf(): { readonly name: string; readonly via: 'cli' } {
  return { name: `${userName()}@${hostname()}`.slice(0, 200), via: 'cli' };
}

/**
 * Runs a command with an operator, after checking that it can work with the schema. Every action is recorded
 * under `user@host`.
 */
export async function withOperator(
  command: Command,
  work: (operator: Operator, output: Output) => Promise<ExitCode | void>,
): Promise<void> {
  const context = contextOf(command);
  const actor = actorOf();
  const coded = await codecOf(command);
  const options = { ...databaseOptions(context, command.name()), ...coded, connectionsMax: 4, actor };
  const operator = createOperator(options);
  try {
    await operator.check();
    const code = (await work(operator, context.output)) ?? 0;
    if (code !== 0) throw new Exit(code);
  } finally {
    await operator.close();
  }
}
