import { PgQueueError } from '@pgqueue/core';
import { throwProblems } from '@pgqueue/core/internal';
import { checkSchemaName, connectionStringProblem, defaultSchema } from '@pgqueue/postgres/internal';
import type { Env } from './env.ts';

/** Options that every command takes. */
export interface GlobalOptions {
  readonly json?: boolean;
  readonly databaseUrl?: string;
  readonly schema?: string;
  /** File of the codec. */
  readonly codec?: string;
}

export interface Settings {
  readonly connectionString: string;
  readonly schema: string;
}

/**
 * Resolves the connection string and the schema from options and environment.
 *
 * @param further problems that the command has found in its own options
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function settle(options: GlobalOptions, env: Env, further: readonly string[] = []): Settings {
  const schema = options.schema ?? defaultSchema;
  const url = options.databaseUrl ?? env.databaseUrl;
  const from = options.databaseUrl === undefined ? env.databaseUrlFrom : '--database-url';
  throwProblems('configuration', "pgqueue can't start", [
    ...urlProblems(url, from),
    ...schemaProblems(schema),
    ...further,
  ]);
  return { connectionString: url ?? '', schema };
}

/** Returns problems without the value: the connection string may contain a password. */
function urlProblems(url: string | undefined, from: string): readonly string[] {
  if (url === undefined || url === '')
    return [
      'no database is named: give --database-url, or set PGQUEUE_DATABASE_URL or DATABASE_URL ("pgqueue dev" brings one along)',
    ];
  const problem = connectionStringProblem(url, from);
  return problem === undefined ? [] : [problem];
}

function schemaProblems(schema: string): readonly string[] {
  try {
    checkSchemaName(schema);
    return [];
  } catch (error) {
    return [error instanceof PgQueueError ? error.message : String(error)];
  }
}

/**
 * Resolves the schema only, for commands that start their own database.
 * @throws {PgQueueError} `configuration`
 */
export function settleSchema(options: GlobalOptions, further: readonly string[]): string {
  const schema = options.schema ?? defaultSchema;
  throwProblems('configuration', "pgqueue can't start", [...schemaProblems(schema), ...further]);
  return schema;
}
