import { readdirSync } from 'node:fs';
import type { Migration } from '@pgqueue/postgres';
import {
  checkSchemaName,
  checkSchemaVersion,
  migrate,
  migrationStatus,
  openDatabase,
  schemaVersion,
} from '@pgqueue/postgres';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

let own: TestDatabase;
let client: pg.Client;
const files = readdirSync(new URL('../../migrations/', import.meta.url)).filter((name) =>
  /^\d{4}_/.test(name),
);
const query = async (
  text: string,
  values: unknown[] = [],
): Promise<readonly Readonly<Record<string, unknown>>[]> => (await client.query(text, values)).rows;

beforeAll(async () => {
  own = await createTestDatabase();
  client = new pg.Client({ connectionString: own.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await own.drop();
});

const at = (schema: string): { connectionString: string; schema: string } => ({
  connectionString: own.url,
  schema,
});
const openFunctions = (schema: string): Promise<readonly unknown[]> =>
  query(
    `select p.proname from pg_proc p where p.pronamespace = $1::regnamespace and has_function_privilege('public', p.oid, 'execute')`,
    [schema],
  );

/** Whether a migration waits for a lock right now. */
async function waitsForLock(): Promise<boolean> {
  const waiting = await query(
    `select from pg_stat_activity where application_name = 'pgqueue migrate' and wait_event_type = 'Lock'`,
  );
  return waiting.length > 0;
}

describe('migrate', () => {
  test('fresh: every file once, in order; a second run does nothing', async () => {
    const applied: Migration[] = [];
    const onApplied = (migration: Migration): void => void applied.push(migration);
    const all = await migrate({ ...at('fresh'), onApplied });
    expect(applied.map(({ name }) => name)).toEqual(files.toSorted());
    expect(all.every(({ applied: time }) => time instanceof Date)).toBe(true);
    expect(await migrate({ ...at('fresh'), onApplied })).toEqual(all);
    expect(applied).toHaveLength(files.length);
    expect(await openFunctions('fresh')).toEqual([]);
    expect(all.at(-1)?.version).toBe(schemaVersion.knows);
  });

  test.each(['a', 'my_queue', '_9', 'x'.repeat(41)])('works in any schema: %s', async (schema) => {
    await migrate(at(schema));
    const database = openDatabase(at(schema));
    await checkSchemaVersion(database, schema);
    await database.query(`insert into ${schema}.queue (task, payload) values ('hello', '{}')`, []);
    await database.close();
    expect(await query(`select status from ${schema}.job`)).toEqual([{ status: 'pending' }]);
  });

  test('two installations in one database know nothing of each other', async () => {
    await migrate(at('one'));
    await migrate(at('two'));
    await query(`insert into one.queue (task) values ('hello')`);
    await query(
      `select one.register_node('n', '{"hello": {"min": 1, "max": 1}}', p_incarnation => '00000000-0000-4000-8000-000000000001')`,
    );
    await query(
      `select two.register_node('n', '{"hello": {"min": 1, "max": 1}}', p_incarnation => '00000000-0000-4000-8000-000000000001')`,
    );
    const [{ epoch } = {}] = await query(`select epoch from one.lead('l', 60000)`);
    expect(await query(`select leads from two.lead('m', 60000)`)).toEqual([{ leads: true }]);
    await query(
      `select one.dispatch('l', $1, array(select id from one.queue), array['default'], null, null, true)`,
      [epoch],
    );
    const claim = (schema: string): Promise<readonly unknown[]> =>
      query(`select task from ${schema}.claim('n', '00000000-0000-4000-8000-000000000001', 5)`);
    expect([await claim('two'), await claim('one')]).toEqual([[], [{ task: 'hello' }]]);
    await query('drop schema one cascade');
    expect(await query('select count(*)::integer as n from two.job')).toEqual([{ n: 0 }]);
  });

  test('several migrators at once apply each file once, also where a stricter isolation is the default', async () => {
    await query(`alter database ${own.name} set default_transaction_isolation = 'serializable'`);
    const applied: string[] = [];
    const onApplied = ({ name }: Migration): void => void applied.push(name);
    await Promise.all([1, 2, 3].map(() => migrate({ ...at('together'), onApplied })));
    await query(`alter database ${own.name} reset default_transaction_isolation`);
    expect(applied).toEqual(files.toSorted());
  });

  test('stopped in the middle of a file: that file leaves nothing, and the next run goes on from there', async () => {
    await query(`create function public.stop() returns event_trigger language plpgsql as $$ begin
      if exists (select from pg_event_trigger_ddl_commands() where object_identity like 'halfway.report_progress(%') then
        raise exception 'stopped on purpose';
      end if; end $$`);
    await query('create event trigger stop on ddl_command_end execute function public.stop()');
    await expect(migrate(at('halfway'))).rejects.toThrow('stopped on purpose');
    expect(
      await query(
        `select count(*)::integer as n from pg_proc where proname = 'extend' and pronamespace = 'halfway'::regnamespace`,
      ),
    ).toEqual([{ n: 0 }]);
    const status = await migrationStatus(at('halfway'));
    expect(status.filter(({ applied }) => applied !== null).map(({ version }) => version)).toEqual([
      1, 2, 3, 4, 5,
    ]);
    expect(await openFunctions('halfway')).toEqual([]);
    await query('drop event trigger stop');
    const applied: number[] = [];
    await migrate({ ...at('halfway'), onApplied: ({ version }) => void applied.push(version) });
    expect(applied).toEqual(
      status.filter(({ applied: time }) => time === null).map(({ version }) => version),
    );
  });

  test('an open transaction stops the migration, and nobody else: others are let through while it waits', async () => {
    await query(`create function public.stop_at_ten() returns event_trigger language plpgsql as $$ begin
      if exists (select from pg_event_trigger_ddl_commands() where object_identity = 'busy.settlement') then
        raise exception 'stopped on purpose';
      end if; end $$`);
    await query('create event trigger stop on ddl_command_end execute function public.stop_at_ten()');
    await expect(migrate(at('busy'))).rejects.toThrow('stopped on purpose');
    await query('drop event trigger stop');
    const insert = `insert into busy.queue (task) values ('hello')`;
    const application = new pg.Client({ connectionString: own.url });
    await application.connect();
    await application.query('begin');
    await application.query(insert);
    let done = false;
    const migrating = migrate(at('busy')).finally(() => {
      done = true;
    });
    await query(`set statement_timeout = '1500ms'`); // without letting through, these would wait for the application
    for (let inserted = 0, since = performance.now(); performance.now() < since + 2_500; inserted += 1) {
      await query(insert);
      if (inserted === 0) await until('the migration to wait', waitsForLock);
    }
    await query('reset statement_timeout');
    expect(done).toBe(false);
    await application.query('commit');
    await application.end();
    await migrating;
    expect(await query('select max(version) as version from busy.migration')).toEqual([
      { version: schemaVersion.knows },
    ]);
  });

  test('a file that was changed after it was applied is refused', async () => {
    await migrate(at('changed'));
    await query(`update changed.migration set checksum = 'other' where version = 3`);
    await expect(migrate(at('changed'))).rejects.toMatchObject({
      code: 'schema_version',
      data: { schema: 'changed', version: 3 },
    });
  });

  test('a schema of its own: an empty one is used, one with other tables is left alone', async () => {
    await query('create schema prepared');
    await migrate(at('prepared'));
    await query(
      'create schema crowded; create table crowded.people (name text); grant select on crowded.people to public',
    );
    await expect(migrate(at('crowded'))).rejects.toMatchObject({ code: 'configuration' });
    expect(await query(`select has_table_privilege('public', 'crowded.people', 'select') as open`)).toEqual([
      { open: true },
    ]);
  });

  test('the status creates nothing', async () => {
    const status = await migrationStatus(at('nowhere'));
    expect(status.map(({ name, applied }) => [name, applied])).toEqual(
      files.toSorted().map((name) => [name, null]),
    );
    expect(await query(`select to_regnamespace('nowhere') as schema`)).toEqual([{ schema: null }]);
  });
});

describe('names', () => {
  test.each([
    '',
    'Upper',
    '1st',
    'a b',
    'a"b',
    "a'b",
    'a;drop table x',
    'a.b',
    'a-b',
    'ä',
    'x'.repeat(42),
    'pg_temp',
    'pg_catalog',
    'public',
    'information_schema',
    'select',
    'user',
    'a\n',
    'a\u0000',
  ])('%j is refused before it reaches any statement', async (schema) => {
    await expect(migrate(at(schema))).rejects.toMatchObject({ code: 'configuration' });
  });

  test('every word that PostgreSQL keeps to itself is refused, and no other', async () => {
    const words = await query(`select word, catcode in ('R', 'T') as reserved from pg_get_keywords()`);
    const refused = (word: string): boolean => {
      try {
        return checkSchemaName(word) !== word;
      } catch {
        return true;
      }
    };
    // a word that only a newer version keeps is refused on the older one, too
    const missed = words.filter(({ word, reserved }) => reserved === true && !refused(String(word)));
    expect(missed).toEqual([]);
    expect(
      words.filter(({ word, reserved }) => reserved === false && refused(String(word))).length,
    ).toBeLessThan(3);
  });
});

describe('the version that a package needs', () => {
  const check = async (schema: string): Promise<unknown> => {
    const database = openDatabase(at(schema));
    try {
      return await checkSchemaVersion(database, schema).then(
        () => 'fits',
        (error: unknown) => error,
      );
    } finally {
      await database.close();
    }
  };

  test('missing, older, newer', async () => {
    expect(await check('absent')).toMatchObject({
      code: 'schema_version',
      message: expect.stringContaining('run "pgqueue migrate --schema absent" first'),
    });
    await migrate(at('versions'));
    expect(await check('versions')).toBe('fits');
    await query(
      `insert into versions.migration (version, name, checksum, compatible) values (97, '0097_more', '', true)`,
    );
    expect(await check('versions')).toBe('fits');
    expect((await migrationStatus(at('versions'))).at(-1)).toMatchObject({ version: 97, name: '0097_more' });
    await query(
      `insert into versions.migration (version, name, checksum, compatible) values (98, '0098_other', '', false), (99, '0099_more', '', true)`,
    );
    expect(await check('versions')).toMatchObject({
      code: 'schema_version',
      message: expect.stringContaining('upgrade the @pgqueue packages'),
    });
    await query('delete from versions.migration where version >= $1', [schemaVersion.needs]);
    expect(await check('versions')).toMatchObject({
      code: 'schema_version',
      message: expect.stringContaining(`needs ${schemaVersion.needs}`),
    });
  });
});
