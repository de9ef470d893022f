import type { Codec, JobStatus } from '@pgqueue/core';
import { errorLine, unreachable } from '@pgqueue/core/internal';
import type { JobEnd, Waited } from '@pgqueue/postgres/internal';
import { lostText, openedEnd } from '@pgqueue/postgres/internal';
import { Problem } from '../problem.ts';

/** Answer about a job that has ended. */
interface Ended {
  readonly id: string;
  readonly status: JobStatus;
  readonly result: unknown;
  readonly error: { readonly reason: string; readonly message: string } | null;
}

/** Answer about a job that has not ended. */
interface Unfinished {
  readonly id: string;
  readonly status: JobStatus;
}

/** An answer, and its status. */
export interface ResultAnswer {
  readonly status: 200 | 202;
  readonly body: Ended | Unfinished;
}

/** Says how a wait for a result has ended. @throws {Problem} `not_found`; `database`: it did not answer in time */
export function resultAnswer(id: string, waited: Waited<JobEnd>, codec: Codec | undefined): ResultAnswer {
  switch (waited.kind) {
    case 'ended':
      return { status: 200, body: ended(id, openedEnd(codec, id, waited.state)) };
    case 'timeout':
      if (waited.state === undefined)
        throw new Problem('database', 'the database did not answer in time: try again');
      return { status: 202, body: { id, status: waited.state.status } };
    case 'gone':
      throw new Problem(
        'not_found',
        waited.before === undefined
          ? `there is no job ${id}: it never was, it was erased, its history is gone, or it belongs to a step of a flow that has not opened`
          : `job ${id} has ended, and nothing tells how: its queue keeps no history, or it was erased`,
      );
    default:
      return unreachable(waited);
  }
}

function ended(id: string, { status, result, error }: JobEnd): Ended {
  const lost = status === 'done' ? lostText(result) : undefined;
  if (lost !== undefined)
    return { id, status, result: null, error: { reason: 'result_lost', message: lost } };
  return {
    id,
    status,
    result: status === 'done' ? (result ?? null) : null,
    error: error === null ? null : { reason: error.reason, message: errorLine(error) },
  };
}
