import { isUuid } from '@pgqueue/core/internal';
import type { JobStatus } from '../contract.ts';
import { Problem } from '../problem.ts';

const statuses: readonly JobStatus[] = [
  'delayed',
  'pending',
  'ready',
  'running',
  'done',
  'cancelled',
  'expired',
  'dead',
];

/** Reads named values one by one and collects their problems. */
export interface Parameters {
  readonly text: (name: string, max?: number) => string | undefined;
  readonly oneOf: <Value extends string>(name: string, values: readonly Value[]) => Value | undefined;
  readonly status: (name: string) => JobStatus | undefined;
  readonly time: (name: string) => Date | undefined;
  readonly uuid: (name: string) => string | undefined;
  readonly limit: (max?: number) => number;
  /** Reads `name`; returns whether a name contains it, in any case. */
  readonly namePart: () => (name: string) => boolean;
  /**
   * Call when all values have been read. @throws {Problem} `bad_request`, with all problems at once,
   * including names that were given but not read
   */
  readonly done: () => void;
  readonly fail: (problem: string) => void;
}

/** Reads parameters from texts by name, such as a query string's; each name may occur once. */
export function parametersOf(given: ReadonlyMap<string, readonly string[]>): Parameters {
  const problems: string[] = [];
  const known = new Set<string>();
  const text: Parameters['text'] = (name, max = 500) => {
    known.add(name);
    const values = given.get(name);
    if (values === undefined) return undefined;
    const [value = ''] = values;
    if (values.length > 1) problems.push(`${name} must be given once`);
    else if (value.length > max) problems.push(`${name} must have ${max} characters at most`);
    else if (value.includes('\u0000') || !value.isWellFormed())
      problems.push(`${name} must not contain NUL or lone surrogates`);
    else return value;
    return undefined;
  };
  const oneOf: Parameters['oneOf'] = (name, values) => {
    const value = text(name);
    if (value === undefined) return undefined;
    const found = values.find((one) => one === value);
    if (found === undefined) problems.push(`${name} must be one of ${values.join(', ')}`);
    return found;
  };
  return {
    text,
    oneOf,
    status: (name) => oneOf(name, statuses),
    time: (name) => {
      const value = text(name);
      if (value === undefined) return undefined;
      const time = new Date(value);
      const isTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/.test(value) && time.getTime() >= 0;
      if (isTime && time.getTime() < 2 ** 47) return time;
      problems.push(`${name} must be a time such as 2026-01-31T12:00:00.000Z`);
      return undefined;
    },
    uuid: (name) => {
      const value = text(name);
      if (value === undefined || isUuid(value)) return value?.toLowerCase();
      problems.push(`${name} must be a UUID`);
      return undefined;
    },
    limit: (max = 200) => {
      const value = text('limit');
      if (value === undefined) return 50;
      const limit = Number(value);
      if (/^\d{1,6}$/.test(value) && limit >= 1 && limit <= max) return limit;
      problems.push(`limit must be a whole number from 1 to ${max}`);
      return 50;
    },
    namePart: () => {
      const part = (text('name', 200) ?? '').toLowerCase();
      return (name) => name.toLowerCase().includes(part);
    },
    fail: (problem) => problems.push(problem),
    done: () => {
      for (const name of given.keys())
        if (!known.has(name)) problems.push(`there is no parameter ${JSON.stringify(name.slice(0, 40))}`);
      if (problems.length > 0) throw new Problem('bad_request', problems.join('; '), problems);
    },
  };
}

/** Reads parameters from a query string. */
export function queryOf(url: URL): Parameters {
  const given = new Map<string, string[]>();
  for (const [name, value] of url.searchParams) given.set(name, [...(given.get(name) ?? []), value]);
  return parametersOf(given);
}

/** Reads parameters from a filter in a body; all values must be texts. */
export function filterOf(value: unknown): Parameters {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Problem('bad_request', 'filter must be an object');
  }
  const odd = Object.entries(value).filter(([, one]) => one !== undefined && typeof one !== 'string');
  if (odd.length > 0)
    throw new Problem('bad_request', `${odd.map(([name]) => name.slice(0, 40)).join(', ')} must be texts`);
  return parametersOf(new Map(Object.entries(value).map(([name, one]) => [name, [String(one)]])));
}
