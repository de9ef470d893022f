import { readFileSync } from 'node:fs';
import { PgQueueError } from '@pgqueue/core';
import type { Json, Policy } from '@pgqueue/core';
import { whyUnread } from './unread.ts';

/** Data for gates and orders that prepare, by their names; a simulation fetches nothing itself. */
export type PreparedData = Readonly<Record<string, Json>>;

/**
 * Reads prepared data from a JSON file.
 * @throws {PgQueueError} `configuration`: no file, not a JSON object, or data that no policy prepares
 */
export function readPrepared(file: string, policies: readonly Policy[]): PreparedData {
  const wrong = (why: string, cause?: unknown): PgQueueError =>
    new PgQueueError('configuration', `--prepared ${file}: ${why}`, { cause });
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) throw wrong(`is no JSON: ${error.message}`, error);
    throw wrong(whyUnread(error), error);
  }
  const names = preparationsOf(policies);
  const shape = `it must be an object by the names of what is prepared: ${names.join(', ') || 'here nothing is'}`;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(shape);
  const unknown = Object.keys(value).filter((name) => !names.includes(name));
  if (unknown.length > 0) throw wrong(`no policy here prepares ${unknown.join(', ')}; ${shape}`);
  return value as PreparedData;
}

/** Names that policies prepare but the file lacks. Their gates see no data and may hold every job. */
export function unprepared(policies: readonly Policy[], given: PreparedData): readonly string[] {
  return preparationsOf(policies).filter((name) => !(name in given));
}

function preparationsOf(policies: readonly Policy[]): readonly string[] {
  return [...new Set(policies.flatMap(({ prepare = [] }) => prepare.map(({ name }) => name)))];
}
