import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { inject } from 'vitest';

const graceMs = 2_000;
const pollMs = 20;

export interface TestDatabase {
  readonly url: string;
  readonly name: string;
  /** Fails when a connection is still open after a short grace: somebody forgot to close it. */
  drop(): Promise<void>;
}

/** A fresh copy of the migrated template: one per test file, or per test that needs its own. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const adminUrl = inject('adminUrl');
  const name = `pgqueue_test_${randomBytes(6).toString('hex')}`;
  await asAdmin(adminUrl, (admin) => createFromTemplate(admin, name));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return { url: url.href, name, drop: () => asAdmin(adminUrl, (admin) => drop(admin, name)) };
}

async function asAdmin(url: string, action: (admin: pg.Client) => Promise<void>): Promise<void> {
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  try {
    await action(admin);
  } finally {
    await admin.end();
  }
}

/** The lock keeps copies apart: PostgreSQL refuses a template that another copy has open. */
async function createFromTemplate(admin: pg.Client, name: string): Promise<void> {
  await admin.query(`SELECT pg_advisory_lock(hashtext('pgqueue_template'))`);
  await admin.query(`CREATE DATABASE ${name} TEMPLATE pgqueue_template STRATEGY file_copy`);
}

async function drop(admin: pg.Client, name: string): Promise<void> {
  const deadline = Date.now() + graceMs;
  let open = await sessions(admin, name);
  while (open.length > 0 && Date.now() < deadline) {
    await delay(pollMs);
    open = await sessions(admin, name);
  }
  await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  if (open.length > 0) {
    throw new Error(`${open.length} connection(s) to ${name} leaked:\n${open.join('\n')}`);
  }
}

async function sessions(admin: pg.Client, name: string): Promise<readonly string[]> {
  const { rows } = await admin.query<{ session: string }>(
    `SELECT format('%s, %s, last: %s', application_name, state, left(query, 120)) AS session
       FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'`,
    [name],
  );
  return rows.map(({ session }) => session);
}
