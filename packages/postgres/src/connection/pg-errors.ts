/**
 * Returns the database's own error: the first with an SQLSTATE among an error of any driver and its causes, four
 * levels deep; the error itself if none has one. Libraries such as drizzle wrap it in one that quotes the statement.
 */
export function databaseError(error: unknown): unknown {
  for (
    let current: unknown = error, depth = 0;
    depth < 4 && typeof current === 'object' && current !== null;
    depth += 1
  ) {
    if (ownState(current) !== undefined) return current;
    current = (current as { readonly cause?: unknown }).cause;
  }
  return error;
}

/** Returns the SQLSTATE of an error's {@link databaseError}; undefined if there is none. */
export function sqlState(error: unknown): string | undefined {
  return ownState(databaseError(error));
}

function ownState(error: unknown): string | undefined {
  const code = (error as { readonly code?: unknown } | null | undefined)?.code;
  // no SQLSTATE begins with E, but EPIPE, of the operating system, has five letters too
  return typeof code === 'string' && /^(?!E)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Returns the message of an error's {@link databaseError}: some drivers hide the rest of it, such as its constraint. */
export function databaseMessage(error: unknown): string {
  const found = databaseError(error);
  return found instanceof Error ? found.message : '';
}

/** SQLSTATE raised by the SQL functions of nodes: this incarnation was reset, lost or replaced. */
export const nodeEndedState = 'PQ001';
/** SQLSTATE raised by the SQL functions of the scheduler: it does not lead in this epoch any more. */
export const leadershipLostState = 'PQ002';
/** SQLSTATE raised at an enqueue through a router: the key has its home in another installation. */
export const movedState = 'PQ004';
/** SQLSTATE of a step of a move of a key that is not under way. */
export const noMoveState = 'PQ005';

/** SQLSTATE: another transaction held a lock for longer than `lock_timeout`. */
export const lockedState = '55P03';

/**
 * Reports whether no answer came within `queryTimeoutMs`. The connection may be wedged, and must not be used
 * again.
 */
export function isQueryTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}

/**
 * Reports whether a connection leads to a server of no use: it only reads (an old primary after a failover),
 * or shuts down. The connection must be closed, too: a new one may reach the primary.
 */
export function isWrongServer(error: unknown): boolean {
  return /^(?:25006|57P|08)/.test(sqlState(error) ?? '');
}

/**
 * Reports whether the server itself refused the statement, and so certainly kept nothing of it. False if the
 * session ended with the statement, which may have committed before.
 */
export function wasRolledBack(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && !/^(?:08|57P)/.test(state);
}

/**
 * Reports whether a statement failed for the content of one of its rows: data, constraints, limits of the
 * program, damage. The statement would fail again, and would succeed without that row. The SQL function
 * `is_of_row` tests the same.
 */
export function isOfRow(error: unknown): boolean {
  return /^(?:22|23|54|XX001|XX002)/.test(sqlState(error) ?? '');
}

/**
 * Reports whether an insert was refused because QUEUE holds a job with this id. Reads the message, since
 * other drivers hide the constraint. Only the name: words and quotation marks are in the server's language.
 */
export function isIdTaken(error: unknown): boolean {
  return sqlState(error) === '23505' && /\bqueue_pkey\b/.test(databaseMessage(error));
}

/**
 * Reports whether repeating the statement later may succeed: the connection broke, the server restarts,
 * recovers, is read-only or short of a resource, or another transaction was in the way. The outcome of the
 * failed statement is unknown.
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
