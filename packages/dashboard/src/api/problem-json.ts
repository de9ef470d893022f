import { STATUS_CODES } from 'node:http';
import { PgQueueError } from '@pgqueue/core';
import { problemOf } from '../problem.ts';

/** Statuses of the errors that a producer may meet. */
const statuses: Readonly<Record<string, number>> = {
  invalid_job: 400,
  invalid_flow: 400,
  not_found: 404,
  too_many_pending: 429,
  closed: 503,
  key_missing: 503,
  undecodable: 503,
};

/** Maps an error to an answer of the HTTP API, by RFC 9457. Errors of the producer keep their codes. */
export function problemJson(error: unknown): Response {
  const { status, code, detail, problems } = describe(error);
  const body = {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail,
    code,
    problems,
  };
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/problem+json' },
  });
}

interface Description {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly problems: readonly string[] | null;
}

function describe(error: unknown): Description {
  const status = error instanceof PgQueueError ? statuses[error.code] : undefined;
  if (error instanceof PgQueueError && status !== undefined) {
    const { code, message: detail, data } = error;
    return { status, code, detail, problems: problemsIn(data) };
  }
  const { status: other, code, message, problems } = problemOf(error);
  const detail = code === 'timeout' ? 'the database took too long: try again' : message;
  return { status: other, code, detail, problems };
}

/** Lists the problems of one job, or of several by their index. */
function problemsIn({ problems, jobs }: PgQueueError['data']): readonly string[] | null {
  if (Array.isArray(problems)) return problems.map(String);
  if (!Array.isArray(jobs)) return null;
  return (jobs as readonly { readonly index: number; readonly problems?: readonly string[] }[]).flatMap(
    ({ index, problems: own = [] }) => own.map((problem) => `jobs[${index}]: ${problem}`),
  );
}
