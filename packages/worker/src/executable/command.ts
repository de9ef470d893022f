import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

/** A command as it is run for each job. */
export interface Command {
  /** Absolute path of the program; as it was given if there is none. */
  readonly file: string;
  /** Name in messages. */
  readonly name: string;
  readonly args: readonly string[];
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string | true>>;
  readonly outputMaxBytes: number;
  readonly graceMs: number;
  readonly snoozeMs: number;
}

/** Returns why a command can't be run here; empty if it can. */
export function whyNotRun({ name, cwd, env }: Command): readonly string[] {
  const problem = (why: string): string => `executable ${JSON.stringify(name)} ${why}`;
  const unset = Object.keys(env).filter((each) => env[each] === true && process.env[each] === undefined);
  return [
    ...(process.platform === 'win32' ? [problem('needs process groups, which Windows has not')] : []),
    ...(programAt(name) === undefined ? [problem(whyNoProgram(name))] : []),
    ...(cwd !== undefined && !isKind(cwd, 'isDirectory')
      ? [problem(`has a cwd that is no folder: ${cwd}`)]
      : []),
    ...(unset.length > 0 ? [problem(`is to get variables that are not set: ${unset.join(', ')}`)] : []),
  ];
}

/** Returns the absolute path of a program that can be run; a name without a slash is looked for in `PATH`. */
export function programAt(name: string): string | undefined {
  const places = name.includes('/')
    ? [resolve(name)]
    : (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, name));
  return places.find((path) => isKind(path, 'isFile') && mayRun(path));
}

function whyNoProgram(name: string): string {
  if (!name.includes('/')) return `is not in PATH: give a path, such as ./${name}`;
  const path = resolve(name);
  if (!isKind(path, 'isFile')) return `is not there: ${path} is no file`;
  return `can't be run: chmod +x ${path}`;
}

function isKind(path: string, kind: 'isFile' | 'isDirectory'): boolean {
  return statSync(path, { throwIfNoEntry: false })?.[kind]() === true;
}

function mayRun(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
