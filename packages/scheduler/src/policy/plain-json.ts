import { types } from 'node:util';

/** Approximate limit on the JSON text of one part of a policy's state, in characters. */
export const partLengthMax = 8_000_000;
const depthMax = 100;
const tooLong = `longer than ${partLengthMax} characters`;

/**
 * Reports why a value is not plain JSON, or returns undefined. A saved value must come back unchanged, while
 * JSON.stringify would turn NaN into null, drop functions and call `toJSON`. Run this within a time limit:
 * the value may be a proxy.
 */
export function jsonProblem(value: unknown): string | undefined {
  const walk: JsonWalk = { path: [], length: 0 };
  const problem = findProblem(value, walk);
  if (problem === undefined) return undefined;
  return walk.path.length === 0 ? problem : `at ${walk.path.slice(0, 8).join('.').slice(0, 200)}: ${problem}`;
}

interface JsonWalk {
  readonly path: (string | number)[];
  length: number;
}

function findProblem(value: unknown, walk: JsonWalk): string | undefined {
  walk.length += 4;
  if (walk.length > partLengthMax) return tooLong;
  if (typeof value === 'string') return textProblem(value, walk);
  if (value === null || typeof value === 'boolean') return undefined;
  if (typeof value === 'object') return objectProblem(value, walk);
  if (typeof value !== 'number') return `${typeof value} is no JSON`;
  return Number.isFinite(value) ? undefined : `${value} is no JSON`;
}

function objectProblem(value: object, walk: JsonWalk): string | undefined {
  if (types.isProxy(value)) return 'a proxy is no JSON';
  if (walk.path.length >= depthMax) return `deeper than ${depthMax} levels`;
  const list = Array.isArray(value);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!list && prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    // an unhandled rejection would end the process
    if (types.isPromise(value)) value.catch(() => {});
    return `${types.isPromise(value) ? 'a promise' : 'an object of a class'} is no JSON`;
  }
  return list ? listProblem(value, walk) : recordProblem(value as Readonly<Record<string, unknown>>, walk);
}

function textProblem(text: string, walk: JsonWalk): string | undefined {
  walk.length += text.length;
  if (walk.length > partLengthMax) return tooLong;
  if (text.isWellFormed() && !text.includes('\u0000')) return undefined;
  return 'a text that PostgreSQL refuses: with U+0000, or half a surrogate pair';
}

function listProblem(list: readonly unknown[], walk: JsonWalk): string | undefined {
  for (let index = 0; index < list.length; index += 1) {
    walk.path.push(index);
    const problem = findProblem(list[index], walk);
    if (problem !== undefined) return problem;
    walk.path.pop();
  }
  return undefined;
}

function recordProblem(record: Readonly<Record<string, unknown>>, walk: JsonWalk): string | undefined {
  for (const name of Object.keys(record)) {
    walk.path.push(name);
    const problem = textProblem(name, walk) ?? findProblem(record[name], walk);
    if (problem !== undefined) return problem;
    walk.path.pop();
  }
  return undefined;
}
