import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { migrate } from '@pgqueue/postgres';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sqlFiles } from '../../../scripts/sql.mjs';
import { useDatabase } from '../../support/database.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const files = sqlFiles();
const own = useDatabase();
let client: pg.Client;

beforeAll(async () => {
  client = new pg.Client({ connectionString: own.url });
  await client.connect();
  await migrate({ connectionString: own.url, schema: 'by_migrations', roles: true });
  await client.query(
    `create schema by_files; set search_path = by_files, pg_temp; set check_function_bodies = off`,
  );
  for (const { sql } of files) await client.query(sql);
  await client.query('reset search_path');
});
afterAll(() => client.end());

/** Everything that a schema consists of, a line each, with the schema's name taken out. Grants are the migrator's and the roles'. */
async function catalogue(schema: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ line: string }>(
    `select 'function ' || pg_get_functiondef(p.oid) as line from pg_proc p where p.pronamespace = $1::regnamespace
     union all select format('column %s.%s %s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                             pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attstorage)
       from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
       where c.relnamespace = $1::regnamespace and a.attnum > 0 and not a.attisdropped
     union all select 'index ' || i.indexdef from pg_indexes i where i.schemaname = $2
     union all select format('constraint %s %s %s', k.conrelid::regclass, k.conname, pg_get_constraintdef(k.oid))
       from pg_constraint k where k.connamespace = $1::regnamespace
     union all select format('relation %s %s %s %s', c.relname, c.relkind, c.relpersistence, c.reloptions)
       from pg_class c where c.relnamespace = $1::regnamespace
     union all select 'view ' || v.viewname || v.definition from pg_views v where v.schemaname = $2
     union all select 'trigger ' || pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
       where not t.tgisinternal and c.relnamespace = $1::regnamespace
     union all select format('comment %s %s %s', c.relname, d.objsubid, d.description)
       from pg_description d join pg_class c on c.oid = d.objoid
       where d.classoid = 'pg_class'::regclass and c.relnamespace = $1::regnamespace`,
    [schema, schema],
  );
  return rows
    .map(({ line }) => line.replaceAll(schema, 'S'))
    .filter((line) => !/\bS\.migration\b| migration[ ._]|migration_pkey/.test(line))
    .toSorted();
}

/** Every function by name, with its text as written. */
const functions = files.flatMap(({ name, sql }) =>
  [...sql.matchAll(/^create function ([a-z0-9_]+)\([^]*?^\$\$;$/gm)].map(([text, called = '']) => ({
    file: name,
    name: called,
    text,
  })),
);

/** Documented for workers in other languages: no package of this repository calls them. */
const forOthers = [
  'ack',
  'nack',
  'give_up',
  'snooze',
  'start_flow',
  'queue_length',
  'peek',
  'scan',
  'wanted_slots',
];

const views = files.find(({ name }) => name === 'views.sql')?.sql ?? '';
const sources = globSync('packages/*/src/**/*.ts', { cwd: root })
  .filter((file) => !file.endsWith('.test.ts'))
  .map((file) => readFileSync(join(root, file), 'utf8'))
  .join('\n');
const calls = (text: string, name: string): boolean => new RegExp(`\\b${name}\\(`).test(text);
const fromPackages = (name: string): boolean =>
  new RegExp(
    `\\$\\{[a-zA-Z.]*schema\\}\\.${name}\\b|\\b(sql|call)[^\\n]*['"\`]${name}['"\`]|\\bask(Ids)?\\b[^'\`]*'${name}\\(`,
  ).test(sources);

describe('the baseline of SQL', () => {
  test('the migrations make what the files say', async () => {
    expect(await catalogue('by_migrations')).toEqual(await catalogue('by_files'));
  });

  test('files have at most 300 lines, functions 100', () => {
    const lines = (text: string): number => text.split('\n').length;
    expect(files.filter(({ sql }) => lines(sql) > 301).map(({ name }) => name)).toEqual([]);
    expect(functions.filter(({ text }) => lines(text) > 100).map(({ name }) => name)).toEqual([]);
  });

  test('every function has a caller', () => {
    const callers = (name: string): boolean =>
      forOthers.includes(name) ||
      fromPackages(name) ||
      files.some(({ sql }) =>
        calls(sql.replaceAll(new RegExp(`^create function ${name}\\(`, 'gm'), ''), name),
      );
    expect(functions.length).toBeGreaterThan(50);
    expect(functions.map(({ name }) => name).filter((name) => !callers(name))).toEqual([]);
  });

  test('no role may call what it calls through others only', async () => {
    const { rows } = await client.query<{ name: string }>(
      `select distinct p.proname::text as name from pg_proc p, aclexplode(p.proacl) a
       where p.pronamespace = 'by_migrations'::regnamespace and a.grantee <> p.proowner order by 1`,
    );
    // an INSERT evaluates defaults and checks by the right of whoever inserts
    const byInsert = ['uuid_v7', 'check_job', 'fits', 'retry_fits'];
    const inner = rows
      .map(({ name }) => name)
      .filter(
        (name) => !fromPackages(name) && !calls(views, name) && ![...forOthers, ...byInsert].includes(name),
      );
    expect(rows.length).toBeGreaterThan(30);
    expect(inner).toEqual([]);
  });
});
