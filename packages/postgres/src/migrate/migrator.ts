import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { PgQueueError } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import {
  aFlag,
  aFunction,
  optional,
  optionProblems,
  retryPauseMs,
  throwProblems,
} from '@pgqueue/core/internal';
import type { Database, DatabaseOptions } from '../connection/database.ts';
import { openDatabase } from '../connection/database.ts';
import { databaseShape } from '../connection/database-options.ts';
import type { PgQueryable } from '../connection/executor.ts';
import { fromPg } from '../connection/executor.ts';
import { sqlState } from '../connection/pg-errors.ts';
import { appliedVersions, refuseBreaking } from '../connection/schema.ts';

/** One file of `migrations/`, and the time at which it was applied (null: not yet). */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** Packages that do not know this migration can go on working. */
  readonly compatible: boolean;
  readonly applied: Date | null;
}

export interface MigrateOptions extends DatabaseOptions {
  /** Also create the roles of least privilege, and grant them their rights. Needs CREATEROLE. */
  readonly roles?: boolean;
  /** Called for each migration after it was committed. */
  readonly onApplied?: (migration: Migration) => void;
}

const migrateShape: Shape<MigrateOptions> = {
  ...databaseShape,
  roles: optional(aFlag),
  onApplied: optional(aFunction),
};

interface MigrationFile {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
  readonly compatible: boolean;
}

/**
 * Lock timeout of a migration. Every session queues behind a migration that waits for a lock, so the
 * migration gives up after this time, lets them through, and tries again.
 */
const lockWaitMs = 500;
/** Maximum number of tries: about three minutes while a transaction of an application holds a lock. */
const triesMax = 100;

/**
 * Brings a schema to the newest version: forward only, one transaction a migration. An advisory lock for each
 * lets several migrators start at once; one that was stopped goes on where it was. Applications go on working
 * meanwhile. A migration waits for locks half a second at a time, for about three minutes in all, so an open
 * transaction delays the migration and no other session. Works through PgBouncer.
 * @throws {PgQueueError} `configuration`, before any I/O (an option; a bundle without the migrations); `schema_version` if an applied migration differs from the one of this package, or is a newer one that this package can't work with; with `roles`, any newer one
 * @throws the error of PostgreSQL (SQLSTATE 55P03 or 40P01) if a transaction was in the way at every try
 */
export async function migrate(options: MigrateOptions): Promise<readonly Migration[]> {
  return migrateFrom(migrationsDirectory(), options);
}

/** Applies the migrations of a folder, as {@link migrate} does with those of this package. */
export async function migrateFrom(directory: URL, options: MigrateOptions): Promise<readonly Migration[]> {
  throwProblems('configuration', 'migrate', optionProblems(options, migrateShape));
  const database = openDatabase({
    applicationName: 'pgqueue migrate',
    queryTimeoutMs: 600_000,
    ...options,
  });
  try {
    const files = migrationFiles(directory);
    const knows = files.at(-1)?.version ?? 0;
    for (const file of files) {
      const applied = await amongOthers(() => apply(database, file, knows));
      if (applied !== undefined) options.onApplied?.(applied);
    }
    await amongOthers(() =>
      database.transaction(async (client) => {
        await lockSchema(database.schema, client);
        await closeToPublic(database.schema, client);
      }),
    );
    if (options.roles === true) await createRoles(database, knows);
    return await migrationsOf(database);
  } finally {
    await database.close();
  }
}

/** Repeats work that failed because another transaction was in the way. */
async function amongOthers<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      const inTheWay = ['55P03', '40P01'].includes(sqlState(error) ?? '');
      if (!inTheWay || failures >= triesMax) throw error;
      await delay(retryPauseMs(failures, 1_500));
    }
  }
}

/**
 * Returns every migration of this package, and those of newer packages that are applied. Creates nothing.
 * @throws {PgQueueError} `configuration`, before any I/O
 */
export async function migrationStatus(options: DatabaseOptions): Promise<readonly Migration[]> {
  throwProblems('configuration', 'migrationStatus', optionProblems(options, databaseShape));
  const database = openDatabase({ applicationName: 'pgqueue migrate', ...options });
  try {
    return await migrationsOf(database);
  } finally {
    await database.close();
  }
}

/** Same as {@link migrationStatus}, on an open database. */
export async function migrationsOf(database: Database): Promise<readonly Migration[]> {
  const rows = await database
    .query<{ version: number; applied: Date; checksum: string; name: string; compatible: boolean }>(
      `select version, name, checksum, compatible, applied from ${database.schema}.migration order by version`,
      [],
    )
    .catch((error: unknown) => {
      if (sqlState(error) === '42P01' || sqlState(error) === '3F000') return [];
      throw error;
    });
  const applied = new Map(rows.map((row) => [row.version, row]));
  const known = migrationFiles().map(({ version, name, compatible }) => ({
    version,
    name,
    compatible,
    applied: applied.get(version)?.applied ?? null,
  }));
  const newer = rows.filter((row) => !known.some(({ version }) => version === row.version));
  return [...known, ...newer];
}

async function apply(database: Database, file: MigrationFile, knows: number): Promise<Migration | undefined> {
  const { schema } = database;
  return database.transaction(async (client) => {
    await lockSchema(schema, client);
    const present = await client.query(
      `select to_regclass($1) is not null as present,
              exists (select from pg_namespace where nspname = $2) as made,
              exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $2) as used`,
      [`${schema}.migration`, schema],
    );
    if (present.rows[0].present === false) {
      if (present.rows[0].used === true) {
        throw new PgQueueError(
          'configuration',
          `schema "${schema}" has tables of something else: give pgqueue a schema of its own, its rights are taken from PUBLIC`,
          { data: { schema } },
        );
      }
      // even "if not exists" needs CREATE on the database, which the owner of a schema may lack
      if (present.rows[0].made === false) await client.query(`create schema ${schema}`);
      await client.query(`create table ${schema}.migration (
        version integer primary key, name text not null, checksum text not null, compatible boolean not null,
        applied timestamptz not null default clock_timestamp())`);
    } else if ((await client.query(`select from ${schema}.migration limit 1`)).rows.length === 0) {
      throw new PgQueueError(
        'schema_version',
        `schema "${schema}" has tables, but "migration" is empty, as after a TRUNCATE of all tables: put its rows back, or drop the schema and migrate anew`,
        { data: { schema } },
      );
    }
    refuseBreaking(schema, await appliedVersions(fromPg(client), schema), knows);
    const found = await client.query(`select checksum from ${schema}.migration where version = $1`, [
      file.version,
    ]);
    if (found.rows.length > 0) {
      if (found.rows[0].checksum !== file.checksum) {
        throw new PgQueueError(
          'schema_version',
          `migration ${file.name} was applied to schema "${schema}" with another text: a published migration never changes; restore the file, or the schema`,
          { data: { schema, version: file.version } },
        );
      }
      return undefined;
    }
    await client.query(`set local search_path to ${schema}, pg_temp`);
    await client.query(file.sql);
    const inserted = await client.query<{ applied: Date }>(
      `insert into ${schema}.migration (version, name, checksum, compatible) values ($1, $2, $3, $4) returning applied`,
      [file.version, file.name, file.checksum, file.compatible],
    );
    await closeToPublic(schema, client); // in the same transaction: no function is ever open to PUBLIC
    const { version, name, compatible } = file;
    return { version, name, compatible, applied: inserted.rows[0]?.applied ?? null };
  });
}

/**
 * Takes the lock of a schema's migrators until the transaction ends. Rights are changed under it, too: two
 * sessions cannot change them at once.
 */
async function lockSchema(schema: string, client: PgQueryable): Promise<void> {
  await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`pgqueue migrate ${schema}`]);
  // set after the advisory lock: another migrator may take its time
  await client.query(`set local lock_timeout = '${lockWaitMs}ms'`);
}

/**
 * Revokes all rights of PUBLIC. PostgreSQL lets everyone execute a new function; no object of this schema is
 * for everyone.
 */
async function closeToPublic(schema: string, client: PgQueryable): Promise<void> {
  const kinds = ['schema', 'all tables in schema', 'all routines in schema', 'all sequences in schema'];
  for (const kind of kinds) await client.query(`revoke all on ${kind} ${schema} from public`);
}

/** Creates the roles. Refuses a schema with any newer version, whose roles would lose rights. */
async function createRoles({ schema, transaction }: Database, knows: number): Promise<void> {
  const sql = readFileSync(new URL('roles.sql', migrationsDirectory()), 'utf8');
  await transaction(async (client) => {
    await lockSchema(schema, client);
    const { version } = await appliedVersions(fromPg(client), schema);
    if ((version ?? 0) > knows) {
      throw new PgQueueError(
        'schema_version',
        `schema "${schema}" is at version ${version}, this package knows ${knows}: it would take rights from the newer version's roles; run "pgqueue migrate --roles" of that version`,
        { data: { schema, version } },
      );
    }
    await client.query(`set local search_path to ${schema}, pg_temp`);
    await client.query(sql);
  });
}

/** Reads the migrations of a folder, in their order. @throws {PgQueueError} `configuration` */
export function migrationFiles(directory: URL = migrationsDirectory()): readonly MigrationFile[] {
  return readdirSync(directory)
    .filter((name) => /^\d{4}_.*\.sql$/.test(name))
    .toSorted()
    .map((name) => {
      const sql = readFileSync(new URL(name, directory), 'utf8');
      const compatible = /^-- compatible: (yes|no)/m.exec(sql)?.[1];
      if (compatible === undefined) {
        throw new PgQueueError('invariant', `migration ${name} does not say whether it is compatible`);
      }
      return {
        version: Number(name.slice(0, 4)),
        name,
        sql,
        checksum: createHash('sha256').update(sql).digest('hex'),
        compatible: compatible === 'yes',
      };
    });
}

/**
 * Returns the folder of the migrations: beside `dist` in a published package, at the top in the repository.
 * Code that runs from source ignores the copy that packing makes for a moment.
 * @throws {PgQueueError} `configuration`: a bundler has moved this code away from them
 */
function migrationsDirectory(): URL {
  const here = import.meta.url as string | undefined; // undefined in a bundle that is CommonJS
  const places = here?.endsWith('.ts') === true ? [] : ['../../migrations/'];
  const found = [...places, '../../../../migrations/']
    .map((place) => URL.parse(place, here))
    .filter((folder) => folder !== null)
    // a bundle may find a folder of this name that is not ours
    .find((folder) => existsSync(new URL('roles.sql', folder)));
  if (found === undefined) {
    throw new PgQueueError(
      'configuration',
      'the migrations are not beside this code, which a bundler may have moved: keep @pgqueue/postgres external to the bundle, or run "pgqueue migrate" and give createQueue the option migrate: false',
    );
  }
  return found;
}
