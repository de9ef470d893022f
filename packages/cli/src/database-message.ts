import { isTransient, sqlState } from '@pgqueue/postgres/internal';

/** Describes an error between command and database in one line, with what to do about it. */
export function databaseMessage(error: unknown): string {
  const text = describe(error);
  const state = sqlState(error);
  const todo = state === undefined ? withoutState(error, text) : byState(state, text);
  if (todo === undefined && state === undefined && isTransient(error))
    return `can't reach PostgreSQL: ${text}; is it running, and is ${theUrl} right?`;
  return todo === undefined ? text : `${text}: ${todo}`;
}

const theUrl = '--database-url, PGQUEUE_DATABASE_URL or DATABASE_URL';
const onlyReads = 'this server only reads';

function byState(state: string, text: string): string | undefined {
  switch (state) {
    case '3D000':
      return `create it ("createdb"), or name another in ${theUrl}`;
    case '28P01':
      return `check user and password in ${theUrl}`;
    case '28000':
      return text.includes('pg_hba.conf')
        ? "the server's pg_hba.conf must let this user in from here; where it wants TLS, add sslmode=verify-full to the connection string"
        : `check user and password in ${theUrl}`;
    case '42501':
      return missingRight;
    case '25006':
      return `${onlyReads}: name the primary in ${theUrl}, or switch default_transaction_read_only off for this role and database`;
    case '0A000': // a standby, asked for an unlogged table
      return text.includes('recovery') ? `${onlyReads}: name the primary in ${theUrl}` : undefined;
    case '53300':
      return 'try again later, or raise max_connections';
    default:
      return undefined;
  }
}

/** Right of a database or of something in it: only the message tells which, in the server's language. */
const missingRight =
  'this command wants more rights; connect as the owner of the schema (to make it, with CREATE on the database; for --roles, with CREATEROLE) or, for all but "migrate", as a member of the role for it: pgqueue_producer, _scheduler, _worker, _viewer or _operator, made by "pgqueue migrate --roles"';

function withoutState(error: unknown, text: string): string | undefined {
  const { code } = error as { readonly code?: unknown };
  if (/client password must be a string/.test(text))
    return `the server wants a password: give one in ${theUrl}`;
  if (/does not support SSL/.test(text))
    return `take sslmode out of ${theUrl}, or switch ssl on at the server`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `connect by a name that is in its certificate: change the host in ${theUrl}`;
  if (typeof code === 'string' && /SIGNATURE|SELF_SIGNED|ISSUER|UNTRUSTED/.test(code))
    return `name the file of its certificate authority: sslrootcert=FILE in ${theUrl}; a file that is named there already is not that of its authority`;
  return undefined;
}

/**
 * Returns the message. Node reports a host with several addresses by an AggregateError without a message, so
 * the messages of its parts are joined.
 */
function describe(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(describe).join('; ');
  return error instanceof Error ? error.message || error.name : String(error);
}
