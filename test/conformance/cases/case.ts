import type { RetryOptions } from '@pgqueue/core';
import type { Tool } from '../../support/tools.ts';
import type { Stage } from '../stage.ts';

/** A case of the suite. It throws if the worker does not behave. */
export interface Case {
  readonly name: string;
  /** Tasks that a worker must implement. */
  readonly tasks: readonly string[];
  /** Programs without which it can't run. */
  readonly tools?: readonly Tool[];
  /** Takes long: begins before the others. */
  readonly slow?: true;
  readonly run: (stage: Stage) => Promise<void>;
}

/** Throws unless the facts are as expected; `is` may have more members. */
export function expectFacts(what: string, is: unknown, expected: Readonly<Record<string, unknown>>): void {
  const found = is as Readonly<Record<string, unknown>>;
  const wrong = Object.keys(expected).filter((name) => text(found[name]) !== text(expected[name]));
  if (wrong.length === 0) return;
  const lines = wrong.map((name) => `${name} is ${text(found[name])}, not ${text(expected[name])}`);
  throw new Error(`${what}: ${lines.join('; ')}`);
}

/** Throws with `problem` unless the condition holds. */
export function expectThat(holds: boolean, problem: string): void {
  if (!holds) throw new Error(problem);
}

/** Returns JSON with sorted names: jsonb sorts them by length. */
function text(value: unknown): string {
  return (
    JSON.stringify(value, (_, each: unknown) =>
      typeof each === 'object' && each !== null && !Array.isArray(each)
        ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
        : each,
    ) ?? 'undefined'
  );
}

/** Returns a retry policy with the same delay each time, in milliseconds. */
export function every(ms: number): RetryOptions {
  return { backoff: 'fixed', base: ms, jitter: 0 };
}
