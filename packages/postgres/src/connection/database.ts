import { createHash } from 'node:crypto';
import { PgQueueError } from '@pgqueue/core';
import { quietly, within } from '@pgqueue/core/internal';
import type { Kysely } from 'kysely';
import pg from 'pg';
import { copyIn } from './copy.ts';
import { destroyClient } from './destroy-client.ts';
import { applicationName } from './application-name.ts';
import type { Executor } from './executor.ts';
import { fromPg } from './executor.ts';
import { isQueryTimeout, isWrongServer, sqlState } from './pg-errors.ts';
import { queryPool, withClient } from './pool-query.ts';
import { queryBuilder } from './query-builder.ts';
import type { Tables } from './tables.ts';
import { checkSchemaName, defaultSchema } from './schema.ts';
import { begin, createSessionDefaults } from './session-defaults.ts';
import type { Target } from './target.ts';

/**
 * Options for connecting to an installation. Give a connection string, or a pool of your own, which stays
 * yours to end.
 */
export interface DatabaseOptions {
  readonly connectionString?: string;
  readonly pool?: pg.Pool;
  /** Default `pgqueue`. */
  readonly schema?: string;
  /** Maximum number of connections of a pool that pgqueue makes. Default 10; of a scheduler 4. */
  readonly connectionsMax?: number;
  /** Name shown in pg_stat_activity. */
  readonly applicationName?: string;
  /**
   * Longest time for a statement, after which it fails and its connection is destroyed. Default 30 s. A pool
   * of your own keeps its own `query_timeout`.
   */
  readonly queryTimeoutMs?: number;
  /**
   * Lets each connection plan a statement once and keep the plan: enqueuing one job takes two thirds of the
   * time. Behind a pooler in transaction mode, the next statement may run in another session. The first
   * statement that fails for this reason is repeated unprepared, and later ones are sent unprepared. Default:
   * true for a producer that makes its own pool and for a scheduler that listens, else false.
   */
  readonly prepare?: boolean;
  /**
   * Called when an idle connection broke, which the pool replaces. Also called for a default of the role or
   * database that should be changed: the message says how. Its own error is dropped.
   */
  readonly onError?: (error: Error) => void;
}

/** One installation, reached through one pool. */
export interface Database extends Executor {
  readonly schema: string;
  readonly pool: pg.Pool;
  /** Query builder for cold, filtered reads; it knows the tables and columns that they read. */
  readonly kysely: Kysely<Tables>;
  /**
   * Runs `work` in one READ COMMITTED transaction. Commits and returns its result; rolls back if it throws.
   */
  readonly transaction: <Result>(work: (client: pg.PoolClient) => Promise<Result>) => Promise<Result>;
  /** Sends the chunks of a COPY … FROM STDIN, all or nothing. */
  readonly copyIn: (statement: string, chunks: Iterable<string>) => Promise<void>;
  /** Ends the pool, unless it was given. Takes at most 2.5 s, whatever the server does. */
  readonly close: () => Promise<void>;
}

/**
 * Runs reads that all see the same snapshot of the database, in one REPEATABLE READ transaction that can't
 * write.
 */
export function inSnapshot<Result>(
  database: Database,
  read: (target: Target) => Promise<Result>,
): Promise<Result> {
  return database.transaction(async (client) => {
    await client.query('set transaction isolation level repeatable read, read only');
    return read({ ...fromPg(client), schema: database.schema });
  });
}

/**
 * Opens an installation. Makes no connection yet.
 * @throws {PgQueueError} `configuration`
 */
export function openDatabase(options: DatabaseOptions): Database {
  const schema = checkSchemaName(options.schema ?? defaultSchema);
  const pool = options.pool ?? makePool(options);
  let closed: Promise<void> | undefined;
  const { run, alone } = statementsOf(options, pool);
  return {
    ...executorOf(run, options),
    schema,
    pool,
    kysely: queryBuilder(schema, executorOf(run, {}).query),
    transaction: (work) => inTransaction(pool, work),
    copyIn: (statement, chunks) =>
      alone((client) =>
        copyIn(client, statement, { chunks, timeoutMs: options.queryTimeoutMs ?? queryTimeoutMs }),
      ),
    close: () => (closed ??= options.pool === undefined ? endPool(pool) : Promise.resolve()),
  };
}

const queryTimeoutMs = 30_000;

type Run = (config: pg.QueryConfig) => Promise<unknown[]>;
type Work<Result> = (client: pg.PoolClient) => Promise<Result>;

/**
 * Returns runners for statements that are transactions of their own. They run READ COMMITTED, whatever the
 * default of the role or database: SQL functions look again after they have locked a row, and at a stricter
 * level would not see what happened meanwhile. A given pool runs statements by its own `query`, which may
 * count or trace them.
 */
function statementsOf(
  options: DatabaseOptions,
  pool: pg.Pool,
): { readonly run: Run; readonly alone: <Result>(work: Work<Result>) => Promise<Result> } {
  const { pool: given } = options;
  const plain: Run = given === undefined ? (config) => queryPool(pool, config) : queryGiven(given);
  const defaults = createSessionDefaults(plain, errorTeller(options));
  const either = async <Result>(quick: () => Promise<Result>, work: Work<Result>): Promise<Result> => {
    try {
      return (await defaults.unfit()) ? await inTransaction(pool, work) : await quick();
    } catch (error) {
      defaults.failed(error);
      throw error;
    }
  };
  return {
    run: (config) =>
      either(
        () => plain(config),
        async (client) => (await client.query<pg.QueryResultRow>(config)).rows,
      ),
    alone: (work) => either(() => withClient(pool, work), work),
  };
}

function queryGiven(pool: pg.Pool): Run {
  return async (config) => {
    const { name, text, values } = config;
    const asked = name === undefined ? pool.query(text, values) : pool.query(config);
    const { rows }: { readonly rows: unknown[] } = await asked;
    return rows;
  };
}

function executorOf(run: Run, { prepare = false }: DatabaseOptions): Executor {
  if (prepare) return preparing(run);
  return {
    query: async <Row>(text: string, values: readonly unknown[]) =>
      (await run({ text, values: [...values] })) as Row[],
  };
}

/** Returns an executor that names its statements, for statements whose text never varies. */
function preparing(run: Run): Executor {
  const names = new Map<string, string>();
  let pooled = false;
  const nameOf = (text: string): { readonly name?: string } => {
    if (pooled) return {};
    const known = names.get(text);
    if (known !== undefined) return { name: known };
    if (names.size >= preparedMax) return {};
    const name = `pgqueue_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
    names.set(text, name);
    return { name };
  };
  return {
    query: async <Row>(text: string, values: readonly unknown[]) => {
      try {
        return (await run({ ...nameOf(text), text, values: [...values] })) as Row[];
      } catch (error) {
        const state = sqlState(error) ?? '';
        if (!refusedNames.has(state)) throw error;
        // nothing was executed: a migration has changed the result's columns, or a pooler switches sessions
        // after all
        pooled ||= state !== '0A000';
        return (await run({ text, values: [...values] })) as Row[];
      }
    },
  };
}

const refusedNames: ReadonlySet<string> = new Set(['0A000', '26000', '42P05']);
/** Maximum number of named statements: texts that do vary must not fill the sessions' memory. */
const preparedMax = 200;

function makePool(options: DatabaseOptions): pg.Pool {
  if (options.connectionString === undefined) {
    throw new PgQueueError(
      'configuration',
      'no database is named: give connectionString, or a pool of your own',
    );
  }
  const onError = errorTeller(options);
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    max: options.connectionsMax ?? 10,
    application_name: applicationName(options.applicationName ?? 'pgqueue'),
    query_timeout: options.queryTimeoutMs ?? queryTimeoutMs,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 30_000,
    allowExitOnIdle: true, // a program that has ended need not close it
    keepAlive: true,
  });
  pool.on('error', onError);
  // A backend that dies between two queries of a transaction raises the error on the client, not on the pool.
  // Without a listener there, the error ends the process.
  const open = new Set<pg.PoolClient>();
  connections.set(pool, open);
  pool.on('connect', (client) => {
    client.on('error', onError);
    open.add(client);
    client.once('end', () => open.delete(client));
  });
  return pool;
}

function errorTeller({ onError }: DatabaseOptions): (error: Error) => void {
  return (error) => quietly(() => onError?.(error));
}

/** Open connections of the pools that pgqueue made. */
const connections = new WeakMap<pg.Pool, Set<pg.PoolClient>>();
/** Longest wait for connections to close by themselves, and then for destroyed ones, in milliseconds. */
const goodbyeMs = 2_000;
const destroyMs = 500;

/**
 * Ends a pool and waits, for at most 2.5 s, until its connections are closed. `pool.end` resolves when it has
 * said goodbye to its connections, not when they are closed: a server that stops right then would still raise
 * an error on each of them. If the server does not answer, the connections are destroyed; otherwise they
 * would hold the process for minutes.
 */
async function endPool(pool: pg.Pool): Promise<void> {
  if (pool.ended) return;
  const open = connections.get(pool) ?? new Set();
  const ended = pool.end();
  const closed = Promise.all(
    [...open].map((client) => new Promise((resolve) => client.once('end', resolve))),
  );
  if (await within(goodbyeMs, Promise.all([ended, closed]))) return;
  for (const client of open) destroyClient(client);
  await within(destroyMs, Promise.all([ended, closed]));
}

async function inTransaction<Result>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<Result>,
): Promise<Result> {
  const ended = await withClient(pool, async (client) => {
    try {
      // whatever the database's default: some functions refuse stricter levels, and a migrator would not see
      // another's work
      await client.query(begin);
      const result = await work(client);
      await client.query('commit');
      return { result };
    } catch (error) {
      // after a timeout a rollback would wait as long again
      if (isQueryTimeout(error) || isWrongServer(error)) throw error;
      await client.query('rollback').catch(() => {
        throw error;
      });
      return { error };
    }
  });
  if ('error' in ended) throw ended.error;
  return ended.result;
}
