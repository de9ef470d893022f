import { fileURLToPath } from 'node:url';
import type { Duration, Handler } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aDuration,
  aListOf,
  aNumber,
  anything,
  aRecordOf,
  aText,
  durationMs,
  either,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import type { Command } from './command.ts';
import { programAt, whyNotRun } from './command.ts';
import { runExecutable } from './run-executable.ts';

/** Options of {@link executable}. */
export interface ExecutableOptions {
  /** Arguments, the same for every job. No shell reads them. */
  readonly args?: readonly string[];
  /** Working directory. Default: that of the worker. */
  readonly cwd?: string;
  /**
   * Environment variables beside `PATH`, `HOME`, `LANG`, `TZ` and `PGQUEUE_…`, by name: a value, or true for
   * that of the worker. The child gets no other variable.
   */
  readonly env?: Readonly<Record<string, string | true>>;
  /** Most bytes on stdout, 1 to 67,108,864. More kill the process and fail the attempt. Default 1,048,576. */
  readonly outputMaxBytes?: number;
  /** Time between SIGTERM and SIGKILL when an attempt is aborted, up to 1 min. Default 500 ms. */
  readonly grace?: Duration;
  /** Time until the next run after an exit with 75 that names none on stdout. Default 1 min. */
  readonly snooze?: Duration;
}

const aCommand: Rule = {
  expected: "a program such as './resize' or 'ffmpeg', or its file URL",
  judge: (value) => pathOf(value) !== undefined,
};

const text = aText({ max: 100_000 });
const shape: Shape<ExecutableOptions> = {
  args: optional(aListOf(text, 'a list of texts')),
  cwd: optional(text),
  env: optional(aRecordOf(either(text, { expected: 'true', judge: (value) => value === true }))),
  outputMaxBytes: optional(aNumber({ min: 1, max: 67_108_864, whole: true })),
  grace: optional(aDuration),
  snooze: optional(aDuration),
};

const commands = new WeakMap<object, Command>();

/**
 * Makes a handler for `implement` that runs a program of any language, one process for each attempt, without a
 * shell. It gets the payload as JSON on stdin, and writes the result as JSON on stdout; an empty stdout is no
 * result. Lines on stderr go to `ctx.log`. Its exit code is the outcome: 0 done, 65 give up, 75 snooze, any
 * other, or a signal, another try. An aborted attempt (timeout, cancelled, shutdown) ends its process group by
 * SIGTERM, and after `grace` by SIGKILL; so does the end of the worker, even by SIGKILL, at once.
 *
 * `createWorker` refuses a program that is not there. Not for Windows, which has no process groups.
 * @param command a path from the working directory of the worker, a name to look for in `PATH`, or a file URL
 * @throws {PgQueueError} `configuration`
 */
export function executable(
  command: string | { readonly href: string },
  options: ExecutableOptions = {},
  // oxlint-disable-next-line typescript/no-explicit-any
): Handler<any, any, any, any> {
  throwProblems('configuration', 'executable(command, options)', [
    ...optionProblems({ command, options }, { command: aCommand, options: anything }),
    ...optionProblems(options, shape),
  ]);
  const { args = [], cwd, env = {}, outputMaxBytes = 1_048_576 } = options;
  const name = pathOf(command) ?? '';
  const made: Command = {
    name,
    args,
    cwd,
    env,
    outputMaxBytes,
    file: programAt(name) ?? name,
    graceMs: Math.min(6e4, durationMs(options.grace ?? 500, 'grace')),
    snoozeMs: durationMs(options.snooze ?? '1m', 'snooze'),
  };
  // oxlint-disable-next-line typescript/no-explicit-any
  const handler: Handler<any, any, any, any> = (payload, context) => runExecutable(made, payload, context);
  commands.set(handler, made);
  return handler;
}

/** Reports whether a handler was made by {@link executable}. */
export function isExecutable(handler: object): boolean {
  return commands.has(handler);
}

/** Returns why a handler's program could not be run; empty if it can, and for every other handler. */
export function commandProblems(task: string, handler: object): readonly string[] {
  const command = commands.get(handler);
  return command === undefined ? [] : whyNotRun(command).map((why) => `task ${task}: ${why}`);
}

function pathOf(command: unknown): string | undefined {
  if (typeof command === 'string') return command === '' || command.includes('\0') ? undefined : command;
  const href: unknown = (command as { readonly href?: unknown } | null)?.href;
  return typeof href === 'string' && href.startsWith('file:') ? fileURLToPath(href) : undefined;
}
