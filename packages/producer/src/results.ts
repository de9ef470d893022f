import type { Codec, Duration, Enqueued } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  aDuration,
  aSignal,
  durationMs,
  errorLine,
  isUuid,
  optional,
  optionProblems,
  throwProblems,
  unreachable,
} from '@pgqueue/core/internal';
import type { HearingParts, JobEnd, Waited } from '@pgqueue/postgres/internal';
import { createResultWaits, keptResult, openedEnd } from '@pgqueue/postgres/internal';
import { noDatabase } from './writing.ts';

/** Options of `producer.result`. */
export interface ResultOptions {
  /** Longest wait; 0: looks once. Default `'30s'`. */
  readonly timeout?: Duration;
  /** Ends the wait when it aborts, with its reason; the job or flow goes on. */
  readonly signal?: AbortSignal;
}

const shape: Shape<ResultOptions> = { timeout: optional(aDuration), signal: optional(aSignal) };

/** Results of jobs, as one producer awaits them. */
interface Results {
  readonly result: <Result>(job: string | Enqueued<Result>, options?: ResultOptions) => Promise<Result>;
  /** Rejects all waits. */
  readonly stop: () => Promise<void>;
}

/** Creates the waits for results of one producer. `parts` undefined: it has no database of its own. */
export function createResults(parts: HearingParts | undefined, codec: Codec | undefined): Results {
  const waits = parts && createResultWaits(parts);
  return {
    result: async <Result>(job: string | Enqueued<Result>, options: ResultOptions = {}) => {
      const timeoutMs = waitMs('producer.result', options);
      const id = idOf('producer.result', 'the id of a job, a UUID, or what an enqueue returned', job);
      if (waits === undefined) throw noDatabase('await results');
      return resultOf(await waits.wait(id, timeoutMs, options.signal), { id, timeoutMs, codec }) as Result;
    },
    stop: async () =>
      waits?.stop(new PgQueueError('closed', 'this producer was closed: it awaits no results')),
  };
}

/** Checks the options of a wait, and returns its longest time in milliseconds. */
export function waitMs(call: string, options: ResultOptions): number {
  throwProblems('configuration', call, optionProblems(options, shape));
  return durationMs(options.timeout ?? '30s', 'timeout');
}

/** Returns the result of a job that is done, or throws an error that says how its wait ended. */
function resultOf(
  waited: Waited<JobEnd>,
  {
    id,
    timeoutMs,
    codec,
  }: { readonly id: string; readonly timeoutMs: number; readonly codec: Codec | undefined },
): unknown {
  switch (waited.kind) {
    case 'ended':
      return resultOfEnd(openedEnd(codec, id, waited.state), id);
    case 'gone':
      throw waited.before === undefined ? unknown(id) : vanished(id);
    case 'timeout':
      throw timedOut(id, { timeoutMs, status: waited.state?.status ?? null, cause: waited.error });
    default:
      return unreachable(waited);
  }
}

function resultOfEnd({ status, result, error }: JobEnd, id: string): unknown {
  switch (status) {
    case 'done':
      return keptResult(id, result);
    case 'dead':
      throw new PgQueueError('job_dead', `job ${id} is dead (${error?.reason}): ${errorLine(error)}`, {
        data: { id, reason: error?.reason, error },
      });
    case 'cancelled':
      throw new PgQueueError('job_cancelled', `job ${id} was cancelled`, { data: { id } });
    case 'expired':
      throw new PgQueueError('job_expired', `job ${id} has expired: it did not start by its expiresAt`, {
        data: { id },
      });
    case 'delayed':
    case 'pending':
    case 'ready':
    case 'running':
      throw new PgQueueError('invariant', `job ${id} is ${status}, and has not ended`);
    default:
      return unreachable(status);
  }
}

function timedOut(
  id: string,
  {
    timeoutMs,
    status,
    cause,
  }: { readonly timeoutMs: number; readonly status: string | null; readonly cause: unknown },
): PgQueueError {
  const state = status === null ? 'the database has not answered' : `it is ${status}`;
  return new PgQueueError(
    'result_timeout',
    `job ${id} has not ended within ${timeoutMs} ms (${state}): it goes on, and can be awaited again`,
    { data: { id, status, timeoutMs }, cause },
  );
}

function unknown(id: string): PgQueueError {
  return new PgQueueError(
    'not_found',
    `there is no job ${id}: its enqueue has not committed, it was erased, its history is gone, or it belongs to a step of a flow that has not opened. Await a result after the commit, and within the retention of its queue; that of a step's job after the flow's end`,
    { data: { id } },
  );
}

function vanished(id: string): PgQueueError {
  return new PgQueueError(
    'not_found',
    `job ${id} has ended, and nothing tells how: its queue keeps no history, or it was erased. Results need a retention of more than 0`,
    { data: { id } },
  );
}

/**
 * Returns an id in the form in which the database returns it.
 * @param given the id, or an object that has it
 */
export function idOf(call: string, takes: string, given: unknown): string {
  const id: unknown =
    typeof given === 'object' && given !== null ? (given as { readonly id?: unknown }).id : given;
  if (typeof id === 'string' && isUuid(id)) return id.toLowerCase();
  const got = typeof id === 'string' ? JSON.stringify(id) : typeof id;
  throw new PgQueueError('configuration', `${call} takes ${takes}, not ${got}`);
}
