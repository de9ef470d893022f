import type { Command } from 'commander';

/** Adds examples to a command's help: each is a command line and what it does. */
export function examples(
  command: Command,
  lines: readonly (readonly [line: string, does: string])[],
): Command {
  const text = lines.map(([line, does]) => `  $ pgqueue ${line}\n      ${does}`).join('\n');
  return command.addHelpText('after', `\nExamples:\n${text}`);
}
