import { spawnSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Debian's own, which has the libraries; another one in PATH has not. */
export const python = '/usr/bin/python3';

const probes = {
  // in a clone: an archive of the sources has no list of files
  git: ['git', '-C', root, 'ls-files', '--error-unmatch', 'package.json'],
  psql: ['psql', '--version'],
  openssl: ['openssl', 'version'],
  pgbouncer: ['/usr/sbin/pgbouncer', '--version'],
  python3: [python, '--version'],
  psycopg2: [python, '-c', 'import psycopg2.extras'],
  // what the tests of the Python client use
  psycopg: [python, '-c', 'import psycopg, psycopg2, sqlalchemy, django, cryptography'],
  mypy: ['mypy', '--version'],
  black: ['/usr/bin/black', '--version'],
  'python venv': [python, '-c', 'import psycopg, ensurepip, venv, setuptools, wheel'],
  // the server's programs that replication needs; the embedded one has them not
  'postgresql-15': ['/usr/lib/postgresql/15/bin/pg_basebackup', '--version'],
  patroni: ['patroni', '--version'],
  etcd: ['etcd', '--version'],
  faketime: ['sh', '-c', 'ls /usr/lib/*/faketime/libfaketime.so.1'],
  chromium: ['/usr/bin/chromium', '--version'],
  promtool: ['promtool', '--version'],
  prometheus: ['prometheus', '--version'],
  // of util-linux: gives a program a terminal
  script: ['script', '--version'],
  // makes a program of its model, which gcc compiles
  spin: ['sh', '-c', 'spin -V && gcc --version'],
  // small file systems, which only an administrator may mount
  'the right to mount': ['sh', '-c', '[ "$(id -u)" = 0 ] && unshare -m true || sudo -n unshare -m true'],
} as const;

/** A program of the system that some tests use, beside Node and PostgreSQL. */
export type Tool = keyof typeof probes;

/**
 * True where a test must be skipped because a program is missing. The runner of the tests lists these programs at the end. With
 * PGQUEUE_TEST_COMPLETE, as in `.ci/run`, nothing is skipped, and a test whose program is missing fails.
 */
export function lacks(tool: Tool): boolean {
  if (process.env['PGQUEUE_TEST_COMPLETE'] !== undefined) return false;
  const [command, ...args] = probes[tool];
  const missing = spawnSync(command, args, { stdio: 'ignore' }).status !== 0;
  const list = process.env['PGQUEUE_TEST_MISSING'];
  if (missing && list !== undefined) appendFileSync(list, `${tool}\n`);
  else if (missing) console.warn(`skipped: ${tool} is not here`);
  return missing;
}
