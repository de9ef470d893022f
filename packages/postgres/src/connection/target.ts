import type { Executor } from './executor.ts';

/** Where a statement runs: something that executes SQL, and the schema of the installation. A Database is one. */
export interface Target extends Executor {
  readonly schema: string;
}

/** Commits what the statement writes asynchronously: for writes whose loss in a crash of Postgres only repeats work. */
export function relaxed(call: string): string {
  return `select f.* from (select set_config('synchronous_commit', 'off', true)) as relaxed, lateral ${call} f`;
}
