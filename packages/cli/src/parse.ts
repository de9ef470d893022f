import type { Duration } from '@pgqueue/core';
import {
  durationMs,
  exactJson,
  InexactNumber,
  isInCalendar,
  isRecord,
  isUuid,
  parseDuration,
} from '@pgqueue/core/internal';
import { InvalidArgumentError } from 'commander';

/** Parses a whole number in a range. Throws InvalidArgumentError, which commander reports as wrong usage. */

export function whole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^-?\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

export function uuid(text: string): string {
  if (isUuid(text)) return text.toLowerCase();
  throw new InvalidArgumentError('A job id is a UUID.');
}

/** Parses the id of a flow. */
export function flowId(text: string): string {
  if (isUuid(text)) return text.toLowerCase();
  throw new InvalidArgumentError('The id of a flow is a UUID.');
}

export function uuids(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, uuid(text)];
}

/** Parses a duration, in milliseconds; `0` needs no unit. Undefined: not a duration. */
export function durationOf(text: string): number | undefined {
  return text.trim() === '0' ? 0 : parseDuration(text);
}

/** Parses a duration, in milliseconds. */
export function duration(text: string): number {
  const ms = durationOf(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError('It must be a duration, such as 500ms, 30s, 5m, 2h or 7d.');
}

/** Parses a duration within a range, in milliseconds. */
export function durationWithin(shortest: Duration, longest: Duration): (text: string) => number {
  const [min, max] = [durationMs(shortest, 'shortest'), durationMs(longest, 'longest')];
  return (text) => {
    const ms = duration(text);
    if (ms >= min && ms <= max) return ms;
    throw new InvalidArgumentError(`It must be from ${shortest} to ${longest}.`);
  };
}

/** Parses the name of a queue to change. */
export function queueName(text: string): string {
  if (text.length >= 1 && text.length <= 100) return text;
  throw new InvalidArgumentError('It must have 1 to 100 characters.');
}

export type Moment =
  | { readonly kind: 'at'; readonly date: Date }
  | { readonly kind: 'in'; readonly ms: number };

/** Parses a time (ISO 8601 with a zone) or a duration from now. */
export function moment(text: string): Moment {
  const ms = durationOf(text);
  if (ms !== undefined) return { kind: 'in', ms };
  const date = new Date(text);
  const isIso = /^\d{4}-\d{2}-\d{2}T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})$/.test(text);
  if (isIso && Number.isFinite(date.getTime()) && isInCalendar(text)) return { kind: 'at', date };
  throw new InvalidArgumentError(
    'It must be a time with its zone, such as 2030-01-31T08:00:00Z, or a duration from now, such as 15m.',
  );
}

/** Converts to a time by this machine's clock, for options that accept a time only. */
export function dateOf(given: Moment): Date {
  return given.kind === 'at' ? given.date : new Date(Date.now() + given.ms);
}

/** Parses JSON, without numbers that would be changed. */
export function json(text: string): unknown {
  try {
    return exactJson(text);
  } catch (error) {
    if (error instanceof InexactNumber) throw new InvalidArgumentError(error.message);
    // the rest of the message quotes the input
    const where = /\(line \d+ column \d+\)/.exec(String(error))?.[0];
    throw new InvalidArgumentError(`It must be JSON${where === undefined ? '' : ` ${where}`}.`);
  }
}

export function jsonObject(text: string): Readonly<Record<string, unknown>> {
  const value = json(text);
  if (isRecord(value)) return value;
  throw new InvalidArgumentError('It must be a JSON object.');
}
