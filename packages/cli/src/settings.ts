import { PgQueueError, throwProblems } from '@pgqueue/core';
import { checkSchemaName, connectionStringProblem, defaultSchema } from '@pgqueue/postgres';
import type { Env } from './env.ts';

/** What every command takes. */
export interface GlobalOptions {
  readonly json?: boolean;
  readonly databaseUrl?: string;
  readonly schema?: string;
}

export interface Settings {
  readonly connectionString: string;
  readonly schema: string;
}

/**
 * Settles which installation is meant.
 * @param further problems that the command has found in its own options
 * @throws {PgQueueError} `configuration`, with everything that is wrong at once
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

/** Never says what the value is: it holds a password. */
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

/** The same for a command that brings its own database. @throws {PgQueueError} `configuration` */
export function settleSchema(options: GlobalOptions, further: readonly string[]): string {
  const schema = options.schema ?? defaultSchema;
  throwProblems('configuration', "pgqueue can't start", [...schemaProblems(schema), ...further]);
  return schema;
}
