import { randomBytes } from 'node:crypto';
import type { Rule, Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  anObject,
  aText,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import { migrate } from '@pgqueue/postgres';
import { checkSchemaName, defaultSchema, openDatabase } from '@pgqueue/postgres/internal';
import { startServer } from '@pgqueue/postgres/testing';
import pg from 'pg';
import { installClock } from '../clock/clock-sql.ts';

/** Address of a run's test server, for all its test files. */
export interface ServerAddress {
  /** Connection string of a superuser. */
  readonly adminUrl: string;
  /** Database that test databases are copied from. */
  readonly template: string;
  readonly schema: string;
  /** True if copies have a clock that can be put forward. */
  readonly clock: boolean;
}

/** A server for one run of tests. */
export interface TestServer extends ServerAddress {
  /** Stops the server, and removes its data. May be called again. */
  readonly stop: () => Promise<void>;
}

/** Options of the template that test databases are copied from. */
export interface TestServerOptions {
  /** Schema of pgqueue. Default `pgqueue`. */
  readonly schema?: string;
  /** Runs the application's own migrations, once for all test databases. pgqueue is there already. */
  readonly prepare?: (connectionString: string) => Promise<void>;
  /** Gives test databases a clock that can be put forward. Default true. */
  readonly clock?: boolean;
}

const shape: Shape<TestServerOptions> = {
  schema: optional(aText()),
  prepare: optional(aFunction),
  clock: optional(aFlag),
};

/** Checks a {@link ServerAddress}; a TestServer has more members. */
export const aServerAddress: Rule = anObject(
  { adminUrl: aText(), template: aText(), schema: aText(), clock: aFlag },
  { what: 'what startTestServer resolves to, or nothing', own: true },
);

const variable = 'PGQUEUE_TESTING';
/** Age at which databases of a killed run are dropped, on a server that somebody else runs. */
const staleMs = 86_400_000;

/**
 * Starts a PostgreSQL for one run of tests, with a migrated template. Processes that this one starts
 * afterwards find the server by their environment. It is embedded, unless the environment says otherwise:
 * `PGQUEUE_TEST_DATABASE_URL` names an existing server, on which only new databases are used;
 * `PGQUEUE_TEST_SERVER` is `embedded`, `container` or `debian`. The server ends with this process, in
 * whatever way that ends.
 * @throws {PgQueueError} `configuration`
 */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  throwProblems('configuration', 'startTestServer', optionProblems(options, shape));
  const { schema = defaultSchema, clock = true } = options;
  checkSchemaName(schema);
  const given = process.env['PGQUEUE_TEST_DATABASE_URL'] ?? process.env['PGQUEUE_TEST_SERVER'];
  const preferred = given === undefined ? { ...process.env, PGQUEUE_TEST_SERVER: 'embedded' } : process.env;
  const server = await startServer({ env: preferred });
  const template = `pgqueue_template_${Date.now()}_${randomBytes(4).toString('hex')}`;
  const address: ServerAddress = { adminUrl: server.adminUrl, template, schema, clock };
  const end = async (): Promise<void> => {
    if (server.kind === 'url') await dropTemplate(address);
    await server.stop();
  };
  try {
    if (server.kind === 'url') await dropStale(server.adminUrl);
    await makeTemplate(address, options.prepare);
  } catch (error) {
    await end();
    throw error;
  }
  const said = JSON.stringify(address);
  process.env[variable] = said;
  let stopped: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    if (process.env[variable] === said) delete process.env[variable];
    await end();
  };
  return { ...address, stop: () => (stopped ??= stop()) };
}

/**
 * Returns the server of this run.
 * @throws {PgQueueError} `configuration` if there is none
 */
export function serverOfRun(): ServerAddress {
  const said = process.env[variable];
  if (said === undefined) {
    throw new PgQueueError(
      'configuration',
      "this run has no test server: name '@pgqueue/testing/vitest-setup' (or jest-setup) in globalSetup, or call startTestServer before",
    );
  }
  return JSON.parse(said) as ServerAddress;
}

async function makeTemplate(
  { adminUrl, template, schema, clock }: ServerAddress,
  prepare: TestServerOptions['prepare'],
): Promise<void> {
  await asAdmin(adminUrl, (admin) => admin.query(`create database ${template}`));
  const connectionString = withDatabase(adminUrl, template);
  await migrate({ connectionString, schema });
  await prepare?.(connectionString);
  if (!clock) return;
  const database = openDatabase({ connectionString, schema, connectionsMax: 1 });
  try {
    await installClock(database);
  } finally {
    await database.close();
  }
}

async function dropTemplate({ adminUrl, template }: ServerAddress): Promise<void> {
  await asAdmin(adminUrl, (admin) => admin.query(`drop database if exists ${template} with (force)`));
}

/** Drops databases that a killed run has left behind; their names tell when they were made. */
async function dropStale(adminUrl: string): Promise<void> {
  await asAdmin(adminUrl, async (admin) => {
    const { rows } = await admin.query<{ readonly name: string }>(
      `select d.datname as name from pg_database d
       where d.datname ~ '^pgqueue_(test|template)_[0-9]+_' and not exists (select from pg_stat_activity a where a.datname = d.datname)`,
    );
    for (const { name } of rows) {
      if (Date.now() - Number(name.split('_')[2]) > staleMs)
        await admin.query(`drop database if exists "${name}"`);
    }
  });
}

/** Runs an action on a connection of its own. */
export async function asAdmin<Result>(
  url: string,
  action: (admin: pg.Client) => Promise<Result>,
): Promise<Result> {
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  try {
    return await action(admin);
  } finally {
    await admin.end();
  }
}

/** Returns the connection string of another database on the same server. */
export function withDatabase(url: string, name: string): string {
  const other = new URL(url);
  other.pathname = `/${name}`;
  return other.href;
}
