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
