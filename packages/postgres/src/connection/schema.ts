import { PgQueueError } from '@pgqueue/core';
import type { Executor } from './executor.ts';
import { sqlState } from './pg-errors.ts';

/** Oldest migration that this package's statements need, and the newest one that it knows. */
export const schemaVersion = { needs: 1, knows: 1 } as const;

/** Schema of an installation unless another one is named. */
export const defaultSchema = 'pgqueue';

/** Reserved words of SQL: a schema of such a name would have to be quoted everywhere. */
const reserved: ReadonlySet<string> = new Set(
  `all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column
  concurrently constraint create cross current_catalog current_date current_role current_schema current_time
  current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from
  full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime
  localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references returning
  right select session_user similar some symmetric system_user table tablesample then to trailing true union unique user
  using variadic verbose when where window with`.split(/\s+/),
);

/**
 * Checks a schema's name before it becomes part of any statement. All other values are parameters.
 * @throws {PgQueueError} `configuration`
 */
export function checkSchemaName(schema: string): string {
  if (reserved.has(schema) || schema === 'public' || schema === 'information_schema') {
    throw new PgQueueError(
      'configuration',
      `schema "${schema}" is no usable name: it is a word of SQL's, or a schema that others share; give pgqueue one of its own`,
    );
  }
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema) || schema.startsWith('pg_')) {
    throw new PgQueueError(
      'configuration',
      `schema ${JSON.stringify(schema)} is no usable name: give 1 to 41 of a-z, 0-9 and _, not beginning with a digit or pg_`,
    );
  }
  return schema;
}

/**
 * Refuses a schema that is missing, older than this package needs, or newer with incompatible changes.
 * @throws {PgQueueError} `schema_version`, saying which of the two to upgrade
 */
export async function checkSchemaVersion(executor: Executor, schema: string): Promise<void> {
  const refuse = (message: string, data: object = {}): never => {
    throw new PgQueueError('schema_version', message, { data: { schema, ...data } });
  };
  const migrating = schema === defaultSchema ? '"pgqueue migrate"' : `"pgqueue migrate --schema ${schema}"`;
  let found: AppliedVersions;
  try {
    found = await appliedVersions(executor, schema);
  } catch (error) {
    if (sqlState(error) === '42P01' || sqlState(error) === '3F000') {
      refuse(`there is no pgqueue in schema "${schema}" of this database: run ${migrating} first`);
    }
    throw error;
  }
  const version = found.version ?? 0;
  if (version < schemaVersion.needs) {
    // a table without a row: migrations make it together with its first one
    const hidden =
      version > 0
        ? ''
        : '; if it has nothing to do, row level security hides the rows of all tables from this user';
    refuse(
      `schema "${schema}" is at version ${version}, this package needs ${schemaVersion.needs}: run ${migrating} of the new version first${hidden}`,
      { version },
    );
  }
  refuseBreaking(schema, found);
}

export interface AppliedVersions {
  /** The newest migration; null: no row is seen. */
  readonly version: number | null;
  /** The newest one that older packages cannot work with. */
  readonly breaking: number | null;
}

/** Reads which migrations are applied. */
export async function appliedVersions(executor: Executor, schema: string): Promise<AppliedVersions> {
  const [found] = await executor.query<AppliedVersions>(
    `select max(version) as version, max(version) filter (where not compatible) as breaking from ${schema}.migration`,
    [],
  );
  return found ?? { version: null, breaking: null };
}

/**
 * Refuses a schema that is newer with incompatible changes.
 * @throws {PgQueueError} `schema_version`
 */
export function refuseBreaking(
  schema: string,
  { version, breaking }: AppliedVersions,
  knows: number = schemaVersion.knows,
): void {
  if ((breaking ?? 0) <= knows) return;
  throw new PgQueueError(
    'schema_version',
    `schema "${schema}" is at version ${version}, this package knows ${knows} and can't work with the changes since: upgrade the @pgqueue packages`,
    { data: { schema, version } },
  );
}
