/** The SQLSTATE of a database error of any driver, or undefined. */
export function sqlState(error: unknown): string | undefined {
  for (
    let current: unknown = error, depth = 0;
    depth < 4 && typeof current === 'object' && current !== null;
    depth += 1
  ) {
    const code = (current as { readonly code?: unknown }).code;
    // no SQLSTATE begins with E; EPIPE, of the operating system, has five letters too
    if (typeof code === 'string' && /^(?!E)[0-9A-Z]{5}$/.test(code)) return code;
    current = (current as { readonly cause?: unknown }).cause;
  }
  return undefined;
}

/** Raised by the SQL functions of nodes: this incarnation was reset, lost or replaced. */
export const nodeEndedState = 'PQ001';
/** Raised by the SQL functions of the scheduler: it no longer leads in this epoch. */
export const leadershipLostState = 'PQ002';
/** Raised at an insert: its queue takes no more jobs of that key (`key_pending`). */
export const keyPendingState = 'PQ003';

/** Another transaction held a lock for longer than `lock_timeout`. */
export const lockedState = '55P03';

/** Whether an answer did not come within `queryTimeoutMs`: the connection may be wedged, and nothing more can be asked of it. */
export function isQueryTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}

/**
 * Whether the server that a connection leads to is of no use: it only reads (an old primary after a failover), or goes away. The
 * connection must go, too: a new one may find the primary.
 */
export function isWrongServer(error: unknown): boolean {
  return /^(?:25006|57P|08)/.test(sqlState(error) ?? '');
}

/**
 * Whether the server itself refused the statement, and so certainly kept nothing of it. Not where the session ended with it: it may
 * have committed before.
 */
export function wasRolledBack(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && !/^(?:08|57P)/.test(state);
}

/**
 * Whether a statement failed for what one of its rows holds: data, constraints, limits of the program, damage. It would fail again, and without
 * that row it would not. The SQL function `is_of_row` says the same.
 */
export function isOfRow(error: unknown): boolean {
  return /^(?:22|23|54|XX001|XX002)/.test(sqlState(error) ?? '');
}

/** Whether an insert was refused since a job with such an id is in QUEUE. By its text: other drivers hide the constraint. */
export function isIdTaken(error: unknown): boolean {
  return sqlState(error) === '23505' && error instanceof Error && error.message.includes('"queue_pkey"');
}

/**
 * Whether repeating the statement later may succeed: the connection broke, the server restarts, recovers, is read-only or out
 * of some resource, or another transaction was in the way. The outcome of what was sent is unknown.
 */
export function isTransient(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== undefined) {
    return /^(?:08|53|57P|40|55P03|25006|57014|XX000)/.test(state);
  }
  const text =
    error instanceof Error
      ? `${(error as { readonly code?: string }).code ?? ''} ${error.message}`
      : String(error);
  return /ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|terminated|timeout|closed|not queryable/i.test(
    text,
  );
}
