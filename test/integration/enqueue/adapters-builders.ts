import { fromDrizzle } from '@pgqueue/producer/drizzle';
import { fromKnex } from '@pgqueue/producer/knex';
import { fromKysely } from '@pgqueue/producer/kysely';
import { fromPg } from '@pgqueue/producer/pg';
import { fromPostgresJs } from '@pgqueue/producer/postgres-js';
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres';
import { pgTable, serial, text } from 'drizzle-orm/pg-core';
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js';
import knex from 'knex';
import type { Knex } from 'knex';
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely';
import type { Generated } from 'kysely';
import * as oldest from 'kysely-0.28';
import pg from 'pg';
import postgres from 'postgres';
import type { Library, NamedLibrary } from './adapters-library.ts';

interface Tables {
  readonly invoice: { readonly id: Generated<number>; readonly note: string };
}

interface OldestTables {
  readonly invoice: { readonly id: oldest.Generated<number>; readonly note: string };
}

const invoice = pgTable('invoice', { id: serial().primaryKey(), note: text().notNull() });

const openPg = async (connectionString: string): Promise<Library> => {
  const client = new pg.Client({ connectionString });
  client.on('error', () => {}); // some tests cut its connection
  await client.connect();
  return {
    transaction: async (work) => {
      await client.query('begin');
      try {
        const write = (note: string): Promise<unknown> =>
          client.query('insert into invoice (note) values ($1)', [note]);
        const result = await work({ tx: client, executor: fromPg(client), write });
        await client.query('commit');
        return result;
      } catch (error) {
        await client.query('rollback').catch(() => {});
        throw error;
      }
    },
    close: () => client.end(),
  };
};

/** Some tests cut connections: without listeners, that would end the process. */
function openPool(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString });
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

const openKysely = (connectionString: string): Promise<Library> => {
  const kysely = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: openPool(connectionString) }),
    plugins: [new CamelCasePlugin()],
  });
  return Promise.resolve({
    transaction: (work) =>
      kysely.transaction().execute((trx) =>
        work({
          tx: trx,
          executor: fromKysely(trx),
          write: (note) => trx.insertInto('invoice').values({ note }).execute(),
        }),
      ),
    close: () => kysely.destroy(),
  });
};

/** The oldest Kysely that is supported; its types do not fit those of the newest. */
const openOldestKysely = (connectionString: string): Promise<Library> => {
  const dialect = new oldest.PostgresDialect({ pool: openPool(connectionString) });
  const kysely = new oldest.Kysely<OldestTables>({ dialect });
  return Promise.resolve({
    transaction: (work) =>
      kysely.transaction().execute((trx) =>
        work({
          tx: trx,
          executor: fromKysely(trx),
          write: (note) => trx.insertInto('invoice').values({ note }).execute(),
        }),
      ),
    close: () => kysely.destroy(),
  });
};

const openDrizzleOnNodePostgres = (connectionString: string): Promise<Library> => {
  const pool = openPool(connectionString);
  const db = drizzlePg(pool);
  return Promise.resolve({
    transaction: (work) =>
      db.transaction((tx) =>
        work({ tx, executor: fromDrizzle(tx), write: (note) => tx.insert(invoice).values({ note }) }),
      ),
    close: () => pool.end(),
  });
};

const openDrizzleOnPostgresJs = (connectionString: string): Promise<Library> => {
  const sql = postgres(connectionString, { max: 2 });
  const db = drizzlePostgresJs(sql);
  return Promise.resolve({
    transaction: (work) =>
      db.transaction((tx) =>
        work({ tx, executor: fromDrizzle(tx), write: (note) => tx.insert(invoice).values({ note }) }),
      ),
    close: () => sql.end({ timeout: 1 }),
  });
};

const openKnex = (connection: string, more: Knex.Config = {}): Promise<Library> => {
  const db = knex({ client: 'pg', connection, pool: { min: 0, max: 2 }, ...more });
  return Promise.resolve({
    transaction: (work) =>
      db.transaction((trx) =>
        work({ tx: trx, executor: fromKnex(trx), write: async (note) => trx('invoice').insert({ note }) }),
      ),
    close: () => db.destroy(),
  });
};

const openPostgresJs = (url: string): Promise<Library> => {
  const sql = postgres(url, { max: 2 });
  return Promise.resolve({
    // its type says what `begin` does to arrays of promises, which a result of ours never is
    transaction: <Result>(work: Parameters<Library['transaction']>[0]) =>
      sql.begin((tx) =>
        work({
          tx,
          executor: fromPostgresJs(tx),
          write: async (note) => tx`insert into invoice ${tx({ note })}`,
        }),
      ) as Promise<Result>,
    close: () => sql.end({ timeout: 1 }),
  });
};

export const builders: readonly NamedLibrary[] = [
  { name: 'pg, a Client', open: openPg },
  { name: 'kysely, with a plug-in that renames columns', open: openKysely },
  { name: 'kysely 0.28', open: openOldestKysely },
  { name: 'drizzle on node-postgres', open: openDrizzleOnNodePostgres },
  { name: 'drizzle on postgres.js', open: openDrizzleOnPostgresJs },
  { name: 'knex', open: (url) => openKnex(url) },
  {
    name: 'knex that unwraps answers',
    open: (url) =>
      openKnex(url, {
        postProcessResponse: (answer: { readonly rows?: unknown } | null) => answer?.rows ?? answer,
      }),
  },
  { name: 'postgres.js', open: openPostgresJs },
];
