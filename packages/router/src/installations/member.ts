import { PgQueueError } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import type { Installation } from '@pgqueue/postgres/internal';
import {
  identityProblem,
  isTransient,
  openDatabase,
  readIdentity,
  sqlState,
} from '@pgqueue/postgres/internal';

/** An installation of a router, with connections of its own for routes and checks. */
export interface Member {
  readonly installation: Installation;
  readonly database: Database;
  /** Connections for statements that may take minutes; opened by the first call. */
  readonly patient: () => Database;
  /**
   * Checks once, before the first use, that the database has the number and the name of the installation. A check
   * that the database did not answer is repeated by the next call.
   * @throws {PgQueueError} `configuration`: it says another number or name; `installation`
   */
  readonly identified: () => Promise<void>;
  /** Runs a call to this installation after that check. Its errors name the installation. */
  readonly run: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /** Reports whether a call did not reach the database, or lost it, and none has succeeded since. */
  readonly isDown: () => boolean;
  readonly close: () => Promise<void>;
}

/**
 * @param options `alone`: it is the only one that the router knows, and may have no number; `queryTimeoutMs`: of its
 * statements, default 10 s
 */
export function createMember(
  installation: Installation,
  { alone, queryTimeoutMs = 10_000 }: { readonly alone: boolean; readonly queryTimeoutMs?: number },
): Member {
  const { connectionString, schema } = installation;
  const open = (limits: { readonly connectionsMax: number; readonly queryTimeoutMs: number }): Database =>
    openDatabase({
      connectionString,
      ...(schema === undefined ? {} : { schema }),
      applicationName: 'pgqueue router',
      ...limits,
    });
  const database = open({ connectionsMax: 2, queryTimeoutMs });
  let patient: Database | undefined;
  let checked: Promise<void> | undefined;
  let down = false;

  const check = async (): Promise<void> => {
    const problem = await identityProblemOf({ database, installation }, alone);
    if (problem !== undefined) throw new PgQueueError('configuration', problem);
  };
  const identified = (): Promise<void> =>
    (checked ??= naming(installation, check).catch((error: unknown) => {
      checked = undefined;
      throw error;
    }));

  return {
    installation,
    database,
    patient: () => (patient ??= open({ connectionsMax: 4, queryTimeoutMs: 600_000 })),
    identified,
    run: async (work) => {
      try {
        await identified();
        const result = await naming(installation, work);
        down = false;
        return result;
      } catch (error) {
        down ||= error instanceof PgQueueError && error.code === 'installation' && isTransient(error.cause);
        throw error;
      }
    },
    isDown: () => down,
    close: async () => {
      await Promise.all([database.close(), patient?.close()]);
    },
  };
}

/**
 * Reads what the database of an installation says of itself, and returns what is wrong with it; undefined: nothing is.
 * @param alone it may have no number
 * @throws {PgQueueError} `schema_version`: there is no pgqueue
 */
export async function identityProblemOf(
  { database, installation }: Pick<Member, 'database' | 'installation'>,
  alone: boolean,
): Promise<string | undefined> {
  const { schema } = installation;
  const found = await readIdentity(database).catch((error: unknown) => {
    if (sqlState(error) !== '42P01' && sqlState(error) !== '3F000') throw error;
    const migrating = `"pgqueue migrate"${schema === undefined ? '' : ` with --schema ${schema}`}`;
    throw new PgQueueError(
      'schema_version',
      `there is no pgqueue in its database, or an older one: run ${migrating} there`,
      { cause: error },
    );
  });
  return found === undefined && alone ? undefined : identityProblem(installation, found);
}

/** Codes of errors that say all by themselves: they are the caller's, and would be the same in any installation. */
const ofCallers: ReadonlySet<string> = new Set([
  'invalid_job',
  'invalid_flow',
  'too_many_pending',
  'not_found',
  'moved',
  'job_dead',
  'job_cancelled',
  'job_expired',
  'result_timeout',
  'result_lost',
  'closed',
]);

/** Runs work, and names the installation in an error that it may have caused. */
async function naming<Result>({ name, number }: Installation, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const message = error instanceof Error ? error.message || error.name : String(error);
    const own = error instanceof PgQueueError;
    if (own && (ofCallers.has(error.code) || error.data['installation'] === name)) throw error;
    const data = { ...(own ? error.data : {}), installation: name, number };
    throw new PgQueueError(
      own ? error.code : 'installation',
      `installation ${name} (number ${number}): ${message}`,
      { data, cause: error },
    );
  }
}

/** Version of an installation's schema. */
export async function schemaOf({ database }: Member): Promise<number> {
  const [row] = await database.query<{ readonly version: number }>(
    `select max(version)::integer as version from ${database.schema}.migration`,
    [],
  );
  return row?.version ?? 0;
}
