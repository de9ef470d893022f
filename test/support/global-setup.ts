import { migrate } from '@pgqueue/postgres';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { startServer } from '../../packages/postgres/src/testing/server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    readonly adminUrl: string;
    readonly serverMajor: number;
  }
}

export const templateDatabase = 'pgqueue_template';

/** One server for the whole run, with a migrated template that every test database is a copy of. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer({ major: requestedMajor() });
  try {
    await createTemplate(server.adminUrl);
  } catch (error) {
    await server.stop();
    throw error;
  }
  console.log(`PostgreSQL ${server.major} (${server.kind})`);
  project.provide('adminUrl', server.adminUrl);
  project.provide('serverMajor', server.major);
  return () => server.stop();
}

function requestedMajor(): 15 | 18 {
  const major = process.env['PGQUEUE_TEST_MAJOR'] ?? '18';
  if (major === '15') return 15;
  if (major === '18') return 18;
  throw new Error(`PGQUEUE_TEST_MAJOR is "${major}"; use 15 or 18`);
}

async function createTemplate(adminUrl: string): Promise<void> {
  const admin = new pg.Client({ connectionString: adminUrl });
  await admin.connect();
  try {
    await admin.query(`DROP DATABASE IF EXISTS ${templateDatabase} WITH (FORCE)`);
    await admin.query(`CREATE DATABASE ${templateDatabase}`);
  } finally {
    await admin.end();
  }
  const url = new URL(adminUrl);
  url.pathname = `/${templateDatabase}`;
  await migrate({ connectionString: url.href, schema: 'pgqueue' });
}
