import type { JobStatus } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { AttemptError } from '../connection/tables.ts';
import type { Target } from '../connection/target.ts';

/** State of a job that somebody waits for. */
export interface JobEnd {
  readonly task: string;
  readonly status: JobStatus;
  /** Result of a job that is done; null: it has none. */
  readonly result: unknown;
  /** Error of a dead job's last attempt, and the reason of its death. */
  readonly error: DeathError | null;
}

/** Error of a dead job's last attempt. `reason`: reason of its death. */
export type DeathError = AttemptError & { readonly reason: 'max_tries' | 'crash_limit' | 'gave_up' };

/**
 * Reads the states of jobs, by id; jobs that are in no table are left out. Unless it is to be exact, a job of
 * a batch counts as pending.
 */
export async function jobResults(
  target: Target,
  ids: readonly string[],
  exact: boolean,
): Promise<ReadonlyMap<string, JobEnd>> {
  const rows = await target.query<JobEnd & { readonly id: string }>(
    `select id, status, result, error, task from ${target.schema}.job_result($1::uuid[], $2)`,
    [ids, exact],
  );
  return new Map(rows.map(({ id, ...end }) => [id, end]));
}

/** Returns the note that a worker stores instead of a result that can't be stored; undefined: it is a result. */
export function lostText(result: unknown): string | undefined {
  if (typeof result !== 'object' || result === null) return undefined;
  const { pgqueue_error: note } = result as { readonly pgqueue_error?: unknown };
  return typeof note === 'string' ? note : undefined;
}

/**
 * Returns the result of a job that is done.
 * @throws {PgQueueError} `result_lost`: it could not be stored
 */
export function keptResult(id: string, result: unknown): unknown {
  const lost = lostText(result);
  if (lost === undefined) return result;
  throw new PgQueueError('result_lost', `job ${id} is done, and its result is lost: ${lost}`, {
    data: { id },
  });
}
