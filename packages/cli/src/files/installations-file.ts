import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { PgQueueError } from '@pgqueue/core';
import { throwProblems } from '@pgqueue/core/internal';
import type { Installation } from '@pgqueue/router';
import { installationsProblems } from '@pgqueue/router';
import { whyNotImported } from './unread.ts';

/**
 * Reads a list of installations: a JSON file `{ "installations": […] }`, or a module (.js, .mjs, .ts, .mts) that exports
 * `installations`.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export async function loadInstallations(file: string): Promise<readonly Installation[]> {
  const wrong = (why: string, cause?: unknown): PgQueueError =>
    new PgQueueError('configuration', `--installations ${file}: ${why}`, { cause });
  const path = resolve(file);
  if (!/\.(?:json|[cm]?[jt]s)$/.test(path))
    throw wrong('give a .json file, or a .js, .mjs, .ts or .mts module');
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) throw wrong('there is no such file');
  let read: unknown;
  try {
    read = path.endsWith('.json')
      ? JSON.parse(readFileSync(path, 'utf8'))
      : await import(pathToFileURL(path).href);
  } catch (error) {
    // the text of a JSON error may quote a password
    throw path.endsWith('.json') ? wrong('is no JSON') : wrong(whyNotImported(error, path), error);
  }
  const { installations } = (typeof read === 'object' && read !== null ? read : {}) as {
    readonly installations?: unknown;
  };
  if (installations === undefined)
    throw wrong('has no "installations": [{ number: 1, name: "eu-1", connectionString: "postgres://…" }]');
  throwProblems('configuration', `--installations ${file}`, installationsProblems(installations));
  return installations as readonly Installation[];
}
