import type { Executor } from './executor.ts';

/** Something that executes SQL, and the schema of the installation. A Database is one. */
export interface Target extends Executor {
  readonly schema: string;
}

/**
 * Wraps a call so that its writes commit asynchronously. For writes whose loss in a crash of Postgres only
 * repeats work.
 */
export function relaxed(call: string): string {
  return `select f.* from (select set_config('synchronous_commit', 'off', true)) as relaxed, lateral ${call} f`;
}
