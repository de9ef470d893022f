import { expect, test } from 'vitest';
import { databaseMessage } from './database-message.ts';

const withCode = (code: string | undefined, message: string): Error =>
  Object.assign(new Error(message), { code });

test.each([
  ['3D000', 'database "x" does not exist', /create it/],
  ['28P01', 'password authentication failed for user "app"', /check user and password/],
  ['28000', 'role "app" does not exist', /check user and password/],
  [
    '28000',
    'pg_hba.conf rejects connection for host "127.0.0.1", user "app"',
    /pg_hba\.conf must let this user in/,
  ],
  [
    '42501',
    'permission denied for table queue_config',
    /as the owner of the schema .*or, for all but "migrate", as a member of the role for it: .*_operator/,
  ],
  ['42501', 'permission denied for function register_node', /for it: pgqueue_producer, .*_worker/],
  ['42501', 'permission denied for database app', /to make it, with CREATE on the database/],
  ['42501', 'permission denied to create role', /for --roles, with CREATEROLE/],
  ['42501', 'keine Berechtigung für Datenbank app', /to make it, with CREATE on the database/],
  ['25006', 'cannot execute INSERT in a read-only transaction', /name the primary/],
  ['0A000', 'cannot access temporary or unlogged relations during recovery', /name the primary/],
  ['53300', 'sorry, too many clients already', /try again later/],
  [
    undefined,
    'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string',
    /the server wants a password/,
  ],
  [undefined, 'The server does not support SSL connections', /sslmode/],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'self-signed certificate', /sslrootcert=FILE/],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unable to verify the first certificate', /sslrootcert=FILE/],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'unable to get local issuer certificate', /sslrootcert=FILE/],
])('%s: %s', (code, message, todo) => {
  const said = databaseMessage(withCode(code, message));
  expect(said.startsWith(`${message}: `)).toBe(true);
  expect(said).toMatch(todo);
  expect(said.split('\n')).toHaveLength(1);
});

test('a server that is not there, by each of its addresses', () => {
  const refused = ['127.0.0.1:1', '::1:1'].map((at) =>
    withCode('ECONNREFUSED', `connect ECONNREFUSED ${at}`),
  );
  const all = Object.assign(new AggregateError(refused, ''), { code: 'ECONNREFUSED' });
  expect(databaseMessage(all)).toMatch(
    /^can't reach PostgreSQL: connect ECONNREFUSED 127\.0\.0\.1:1; connect ECONNREFUSED ::1:1; is it running, /,
  );
});

test('what is something else is said as it is', () => {
  expect(databaseMessage(withCode('22012', 'division by zero'))).toBe('division by zero');
  expect(databaseMessage(new Error('no luck'))).toBe('no luck');
  expect(databaseMessage(withCode('CERT_HAS_EXPIRED', 'certificate has expired'))).toBe(
    'certificate has expired',
  );
});
