import { spawnSync } from 'node:child_process';

const probes = {
  psql: ['psql', '--version'],
  openssl: ['openssl', 'version'],
  pgbouncer: ['/usr/sbin/pgbouncer', '--version'],
  // Debian's own Python, which has python3-psycopg2; another one in PATH has not
  psycopg2: ['/usr/bin/python3', '-c', 'import psycopg2.extras'],
  // the server's programs that replication needs; the embedded one has them not
  replication: ['/usr/lib/postgresql/15/bin/pg_basebackup', '--version'],
  patroni: ['patroni', '--version'],
  etcd: ['etcd', '--version'],
  faketime: ['sh', '-c', 'ls /usr/lib/*/faketime/libfaketime.so.1'],
  git: ['git', '--version'],
  chromium: ['/usr/bin/chromium', '--version'],
  promtool: ['promtool', '--version'],
  prometheus: ['prometheus', '--version'],
  // of util-linux: gives a program a terminal
  script: ['script', '--version'],
  // makes a program of its model, which gcc compiles
  spin: ['sh', '-c', 'spin -V && gcc --version'],
} as const;

/** A program of the system that some tests use, beside Node and PostgreSQL. */
export type Tool = keyof typeof probes;

/**
 * Whether a test must be skipped for want of a program. CI installs them all (`.ci/run`): there nothing is skipped, and a test
 * whose program is missing fails.
 */
export function lacks(tool: Tool): boolean {
  if (process.env['CI'] !== undefined) return false;
  const [command, ...args] = probes[tool];
  const missing = spawnSync(command, args, { stdio: 'ignore' }).status !== 0;
  if (missing) console.warn(`skipped: ${tool} is not installed here`);
  return missing;
}
