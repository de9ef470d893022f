import { readFileSync } from 'node:fs';
import { PgQueueError } from '@pgqueue/core';
import { throwProblems } from '@pgqueue/core/internal';
import { installationsProblems } from '@pgqueue/postgres/internal';
import type { Installation } from '@pgqueue/router';
import { importModule } from './module.ts';
import { whyUnread } from './unread.ts';

/**
 * Reads a list of installations: a JSON file `{ "installations": […] }`, or a module (.js, .mjs, .ts, .mts) that exports
 * `installations`.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export async function loadInstallations(file: string): Promise<readonly Installation[]> {
  const wrong = (why: string, cause?: unknown): PgQueueError =>
    new PgQueueError('configuration', `--installations ${file}: ${why}`, { cause });
  if (!/\.(?:json|[cm]?[jt]s)$/.test(file))
    throw wrong('give a .json file, or a .js, .mjs, .ts or .mts module');
  const read = file.endsWith('.json') ? fromJson(file, wrong) : await fromModule(file, wrong);
  const { installations } = (typeof read === 'object' && read !== null ? read : {}) as {
    readonly installations?: unknown;
  };
  if (installations === undefined)
    throw wrong('has no "installations": [{ number: 1, name: "eu-1", connectionString: "postgres://…" }]');
  throwProblems('configuration', `--installations ${file}`, installationsProblems(installations));
  return installations as readonly Installation[];
}

type Wrong = (why: string, cause?: unknown) => PgQueueError;

function fromJson(file: string, wrong: Wrong): unknown {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw wrong(whyUnread(error), error);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw wrong('is no JSON'); // the error's text may quote a password
  }
}

async function fromModule(file: string, wrong: Wrong): Promise<unknown> {
  const imported = await importModule(file);
  if (imported.kind === 'problem') throw wrong(imported.problem, imported.cause);
  return imported.exported;
}
