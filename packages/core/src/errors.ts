/** What went wrong, by who has to act on it. Every error of pgqueue has one of these codes. */
export type ErrorCode =
  /** The operator: options or environment; all problems are listed at once. */
  | 'configuration'
  /** The caller: a job that can't be enqueued. Found before any I/O. */
  | 'invalid_job'
  /** The caller: so many jobs of one key wait already (`key_pending` of the queue). Later there may be room. */
  | 'too_many_pending'
  /** The operator: the database's schema is missing, too old or too new for this package. */
  | 'schema_version'
  /** The operator: another live node uses this node id. */
  | 'node_id_in_use'
  /** Nobody: this node was reset, lost or replaced; its leases are gone. */
  | 'node_ended'
  /** Nobody: another scheduler leads now. */
  | 'leadership_lost'
  /** The caller: the job, node, queue or schedule does not exist. */
  | 'not_found'
  /** Us: something that can't be, was. */
  | 'invariant';

/** An error that pgqueue raises itself. `message` says what to do; `data` holds the facts as plain JSON. */
export class PgQueueError extends Error {
  override readonly name: string = 'PgQueueError';
  readonly code: ErrorCode;
  readonly data: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message: string,
    details: { readonly data?: Readonly<Record<string, unknown>>; readonly cause?: unknown } = {},
  ) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.code = code;
    this.data = details.data ?? {};
  }
}

/** All the problems of one configuration or one job, in one error. Does nothing where there are none. */
export function throwProblems(
  code: 'configuration' | 'invalid_job',
  subject: string,
  problems: readonly string[],
): void {
  if (problems.length === 0) return;
  throw new PgQueueError(code, `${subject}: ${problems.join('; ')}`, { data: { problems } });
}

/** Ends a switch over a union: a new member fails to compile wherever it matters. */
export function unreachable(value: never): never {
  throw new PgQueueError('invariant', `unexpected value ${JSON.stringify(value)}`);
}

/** The error as plain data, bounded: message up to 2,000 characters, stack up to 8,000, no NUL (jsonb refuses it). */
export function errorData(error: unknown): {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
} {
  const unreadable = 'what was thrown can not be read';
  if (!isError(error)) {
    return { name: 'NonError', message: textOf(() => error, 2_000) ?? unreadable };
  }
  const stack = textOf(() => error.stack ?? '', 8_000) ?? '';
  return {
    name: textOf(() => error.name, 200) ?? 'Error',
    message: textOf(() => error.message, 2_000) ?? unreadable,
    ...(stack === '' ? {} : { stack }),
  };
}

function isError(value: unknown): value is Error {
  try {
    return value instanceof Error;
  } catch {
    return false; // a revoked proxy
  }
}

/** What handlers throw may be anything: reading it, or making a text of it, may throw in turn. */
function textOf(read: () => unknown, max: number): string | undefined {
  try {
    return String(read()).slice(0, max).replaceAll('\u0000', '').toWellFormed();
  } catch {
    return undefined;
  }
}
