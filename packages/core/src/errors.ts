/** Kind of an error, by who has to act on it. Every error of pgqueue has one of these codes. */
export type ErrorCode =
  /** For the operator: options or environment are wrong. All problems are listed at once. */
  | 'configuration'
  /** For the caller: a job can't be enqueued. Found before any I/O. */
  | 'invalid_job'
  /** For the caller: a flow can't be started, or a value can't be its signal. Found before any I/O. */
  | 'invalid_flow'
  /**
   * For the caller: the queue takes no more waiting jobs of one key (`key_pending` of the queue). There may
   * be room later.
   */
  | 'too_many_pending'
  /** For the router: the key has its home in another installation, which `data` names; it enqueues there. */
  | 'moved'
  /**
   * For the caller: an installation did not do its part. `data.installation` names it, or `data.failed` all that
   * failed; the others have done theirs.
   */
  | 'installation'
  /** For the operator: the database's schema is missing, too old or too new for this package. */
  | 'schema_version'
  /** For the operator: another live node uses this node id. */
  | 'node_id_in_use'
  /** For nobody: this node was reset, lost or replaced. Its leases are gone. */
  | 'node_ended'
  /** For nobody: another scheduler leads. */
  | 'leadership_lost'
  /** For the caller: the job, flow, step, node, queue or schedule does not exist, or does not exist any more. */
  | 'not_found'
  /** For the caller: the awaited job is dead. `data.error`: the error of its last attempt. */
  | 'job_dead'
  /** For the caller: the awaited job was cancelled. */
  | 'job_cancelled'
  /** For the caller: the awaited job did not start by its `expiresAt`. */
  | 'job_expired'
  /** For the caller: the awaited job has not ended yet. `data.status`: its status. */
  | 'result_timeout'
  /** For the caller: the awaited job is done, and its result could not be stored. */
  | 'result_lost'
  /** For the handler: the signal that it waited for has not come in time. */
  | 'signal_timeout'
  /** For the operator: a value is encrypted under a key that this process does not have. `data.key`: its id. */
  | 'key_missing'
  /** For the operator: an encrypted value was changed or moved, or one is plain where the codec refuses that. */
  | 'undecodable'
  /** For the caller: the producer was closed while it waited. */
  | 'closed'
  /** For the authors of pgqueue: a state that must not occur did. */
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

/** Throws all the problems of one configuration, job or flow as one error. Does nothing when there are none. */
export function throwProblems(
  code: 'configuration' | 'invalid_job' | 'invalid_flow',
  subject: string,
  problems: readonly string[],
): void {
  if (problems.length === 0) return;
  throw new PgQueueError(code, `${subject}: ${problems.join('; ')}`, { data: { problems } });
}

/** Ends a switch over a union, so that a new member fails to compile in each such switch. */
export function unreachable(value: never): never {
  throw new PgQueueError('invariant', `unexpected value ${JSON.stringify(value)}`);
}
