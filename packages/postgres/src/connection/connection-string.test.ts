import { valueProblems } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import { aConnectionString, isConnectionString } from './connection-string.ts';

test.each([
  'postgres://localhost/app',
  'postgresql://user:pa%2Fss@db.example:5432/app?sslmode=require',
  'postgres://user:p@ss word@db/app',
  'postgres:///app?host=/var/run/postgresql',
  'postgres://%2Fvar%2Frun%2Fpostgresql/app',
  'socket:/var/run/postgresql?db=app',
  '/var/run/postgresql app',
])('%s is one', (text) => {
  expect(isConnectionString(text)).toBe(true);
});

test.each([
  'not a url',
  'mysql://root@db/app',
  'localhost:5432',
  '',
  'http://db/app',
  'postgres:app',
  17,
  null,
])('%j is none, and is told without what it is', (value) => {
  const [problem = ''] = valueProblems(aConnectionString, value, 'connectionString');
  expect(problem).toMatch(
    /^connectionString is not a connection string: it looks like postgres:\/\/USER@HOST/,
  );
  expect(problem).not.toContain(value === '' ? '""' : String(value));
});
