import { valueProblems } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import { aConnectionString, connectionStringProblem } from './connection-string.ts';

test.each([
  'postgres://localhost/app',
  'postgresql://user:pa%2Fss@db.example:5432/app?sslmode=verify-full',
  'postgres://user:p@ss word@db/app',
  'postgres://user:p,w@db/app',
  'postgres:///app?host=/var/run/postgresql',
  'postgres://postgres@/app?host=/tmp/dir&port=5731',
  'postgresql://postgres@/app?host=%2Ftmp%2Fdir&port=5731',
  'postgres://%2Fvar%2Frun%2Fpostgresql/app',
  'socket://postgres@/dir?db=app',
  'socket:/var/run/postgresql?db=app',
  '/var/run/postgresql app',
])('%s is one', (text) => {
  expect(connectionStringProblem(text, 'it')).toBeUndefined();
});

test.each([
  'not a url',
  'mysql://root@db/app',
  'localhost:5432',
  '',
  'http://db/app',
  'postgres:app',
  'postgres://db:port/app',
  17,
  null,
])('%j is none, and is told without what it is', (value) => {
  const [problem = ''] = valueProblems(aConnectionString, value, 'connectionString');
  expect(problem).toMatch(
    /^connectionString is not a connection string: it looks like postgres:\/\/USER@HOST/,
  );
  expect(problem).not.toContain(value === '' ? '""' : String(value));
});

test.each([
  'postgres://app:hunter2@a,b/app',
  'postgres://app:hunter2@a:5432,b:5433/app',
  'postgres://app:hunter2@a%2Cb/app',
  'postgres://app:hunter2@/app?host=a,b',
  'postgres:///app?host=/a,/b',
  'postgres://app:hunter2@a/app?sslmode=disable&target_session_attrs=read-write',
])('%s wants what the driver can not do', (text) => {
  const problem = connectionStringProblem(text, 'DATABASE_URL');
  expect(problem).toMatch(/^DATABASE_URL has a list of hosts, or target_session_attrs, .*"Failover"/);
  expect(problem).not.toContain('hunter2');
});

test.each(['sslrootcert', 'sslcert', 'sslkey'])(
  'a file that is not there is told with its option: %s',
  (option) => {
    const problem = connectionStringProblem(
      `postgres://u:hunter2@db/app?${option}=%2Fnone%2Fx.pem`,
      '--database-url',
    );
    expect(problem).toBe(
      `--database-url: ${option} can't be read: ENOENT: no such file or directory, open '/none/x.pem'`,
    );
  },
);
