import { PgQueueError } from '@pgqueue/core';
import { unreachable } from '@pgqueue/core/internal';
import { isTransient, sqlState } from '@pgqueue/postgres/internal';
import type { ApiError, ApiErrorCode } from './contract.ts';

const statuses: Readonly<Record<ApiErrorCode, number>> = {
  bad_request: 400,
  unauthenticated: 401,
  forbidden: 403,
  csrf: 403,
  origin: 403,
  host: 403,
  not_found: 404,
  method: 405,
  conflict: 409,
  too_large: 413,
  media_type: 415,
  idempotency_key: 422,
  busy: 503,
  timeout: 504,
  database: 503,
  internal: 500,
};

/** An error that becomes an answer other than 2xx. */
export class Problem extends Error {
  override readonly name: string = 'Problem';
  readonly code: ApiErrorCode;
  readonly problems: readonly string[] | null;
  /** Headers that HTTP wants with its status. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ApiErrorCode,
    message: string,
    problems: readonly string[] | null = null,
    headers: Readonly<Record<string, string>> = code === 'busy' ? { 'retry-after': '1' } : {},
  ) {
    super(message);
    this.code = code;
    this.problems = problems;
    this.headers = headers;
  }

  get status(): number {
    return statuses[this.code];
  }

  body(): ApiError {
    return { error: { code: this.code, message: this.message, problems: this.problems } };
  }
}

/** Refuses the method of a request. `allow`: those that its address takes. */
export function wrongMethod(allow: readonly string[]): Problem {
  return new Problem('method', `this address takes ${allow.join(' and ')} only`, null, {
    allow: allow.join(', '),
  });
}

/** Maps an error to what a client may know: never a statement, a value or a host name of the database. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof PgQueueError) return ofPgQueue(error);
  const state = sqlState(error);
  if (state === '42501')
    return new Problem(
      'forbidden',
      'the database\'s role may not do this: grant it with "pgqueue migrate --roles"',
    );
  if (state === '57014' || (error instanceof Error && error.message === 'Query read timeout'))
    return new Problem(
      'timeout',
      'the database took longer than a page may: narrow the filter, or try again',
    );
  if (state === '55P03') return new Problem('conflict', 'something else holds it at this moment: try again');
  if (state === '42P01' || state === '42883' || state === '3F000')
    return new Problem(
      'database',
      'the schema is missing or too old for this dashboard: run "pgqueue migrate"',
    );
  if (state?.startsWith('22') === true || state?.startsWith('23') === true)
    return new Problem('bad_request', 'the database refused a value');
  if (isTransient(error)) return new Problem('database', 'the database does not answer: try again');
  return new Problem('internal', 'something went wrong here; the log of the dashboard has it');
}

function ofPgQueue({ code, message, data }: PgQueueError): Problem {
  const { problems } = data;
  const list = Array.isArray(problems) ? problems.filter((one) => typeof one === 'string') : null;
  switch (code) {
    case 'configuration':
    case 'invalid_job':
    case 'invalid_flow':
      return new Problem('bad_request', message, list);
    case 'not_found':
      return new Problem('not_found', message);
    case 'too_many_pending':
      return new Problem('conflict', message);
    case 'schema_version':
    case 'installation':
      return new Problem('database', message);
    case 'node_id_in_use':
    case 'node_ended':
    case 'leadership_lost':
    // of waits for results, which no page has
    case 'job_dead':
    case 'job_cancelled':
    case 'job_expired':
    case 'result_timeout':
    case 'result_lost':
    case 'signal_timeout':
    case 'key_missing':
    case 'undecodable':
    case 'closed':
    // which a router follows by itself
    case 'moved':
    case 'invariant':
      return new Problem('internal', 'something went wrong here; the log of the dashboard has it');
    default:
      return unreachable(code);
  }
}
