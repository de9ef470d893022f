import { randomUUID } from 'node:crypto';
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Migration } from '@pgqueue/postgres';
import { createOperator, migrate, migrationStatus } from '@pgqueue/postgres';
import {
  checkSchemaName,
  checkSchemaVersion,
  fromPg,
  openDatabase,
  schemaVersion,
} from '@pgqueue/postgres/internal';
import { migrateFrom } from '@pgqueue/postgres/testing';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const own = useDatabase();
let client: pg.Client;
const migrations = fileURLToPath(new URL('../../../migrations/', import.meta.url));
const files = readdirSync(migrations).filter((name) => /^\d{4}_/.test(name));
const query = async (
  text: string,
  values: unknown[] = [],
): Promise<readonly Readonly<Record<string, unknown>>[]> => (await client.query(text, values)).rows;

beforeAll(async () => {
  client = new pg.Client({ connectionString: own.url });
  await client.connect();
});
afterAll(() => client.end());

const at = (schema: string): { connectionString: string; schema: string } => ({
  connectionString: own.url,
  schema,
});
const openFunctions = (schema: string): Promise<readonly unknown[]> =>
  query(
    `select p.proname from pg_proc p where p.pronamespace = $1::regnamespace and has_function_privilege('public', p.oid, 'execute')`,
    [schema],
  );

/** True if a migration is waiting for a lock. */
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
      `select one.dispatch('l', $1, array(select id from one.queue), null, '{"pool": "default"}', true)`,
      [epoch],
    );
    const claim = (schema: string): Promise<readonly unknown[]> =>
      query(`select task from ${schema}.claim('n', '00000000-0000-4000-8000-000000000001', 5)`);
    expect([await claim('two'), await claim('one')]).toEqual([[], [{ task: 'hello' }]]);
    await query('drop schema one cascade');
    expect(await query('select count(*)::integer as n from two.job')).toEqual([{ n: 0 }]);
  });

  test('several migrators at once apply each file once, also where a stricter isolation is the default', async () => {
    await query(`alter database ${own.test.name} set default_transaction_isolation = 'serializable'`);
    const applied: string[] = [];
    const onApplied = ({ name }: Migration): void => void applied.push(name);
    await Promise.all([1, 2, 3].map(() => migrate({ ...at('together'), onApplied })));
    await query(`alter database ${own.test.name} reset default_transaction_isolation`);
    expect(applied).toEqual(files.toSorted());
  });

  test('stopped in the middle of a file: that file leaves nothing, and the next run goes on from there', async () => {
    await query(`create function public.stop() returns event_trigger language plpgsql as $$ begin
      if exists (select from pg_event_trigger_ddl_commands() where object_identity like 'halfway.report_progress(%') then
        raise exception 'stopped on purpose';
      end if; end $$`);
    await query('create event trigger stop on ddl_command_end execute function public.stop()');
    await expect(migrate(at('halfway'))).rejects.toThrow('stopped on purpose');
    expect(await query(`select to_regnamespace('halfway') as schema`)).toEqual([{ schema: null }]);
    const status = await migrationStatus(at('halfway'));
    expect(status.map(({ applied }) => applied)).toEqual(files.map(() => null));
    await query('drop event trigger stop');
    const applied: string[] = [];
    await migrate({ ...at('halfway'), onApplied: ({ name }) => void applied.push(name) });
    expect(applied).toEqual(files.toSorted());
    expect(await openFunctions('halfway')).toEqual([]);
  });

  test('an open transaction stops a migration, and nobody else: others are let through while it waits', async () => {
    await migrate(at('busy'));
    const folder = mkdtempSync(join(tmpdir(), 'pgqueue-migrations-'));
    cpSync(migrations, folder, { recursive: true });
    writeFileSync(
      join(folder, '0002_more.sql'),
      '-- compatible: yes\nalter table queue add column more integer;\n',
    );
    const insert = `insert into busy.queue (task) values ('hello')`;
    const application = new pg.Client({ connectionString: own.url });
    await application.connect();
    await application.query('begin');
    await application.query(insert);
    let done = false;
    const migrating = migrateFrom(pathToFileURL(`${folder}/`), at('busy')).finally(() => {
      done = true;
    });
    // each insert first waits behind the migration, and succeeds because the migration gives up its place,
    // not because it ended
    for (let inserted = 0; inserted < 3; inserted += 1) {
      await until('the migration to wait', waitsForLock);
      await query(insert);
    }
    expect(done).toBe(false);
    await application.query('commit');
    await application.end();
    await migrating;
    rmSync(folder, { recursive: true });
    expect(await query('select max(version) as version from busy.migration')).toEqual([{ version: 2 }]);
  });

  test('a newer version that breaks is refused; its roles keep their rights, also where it is compatible', async () => {
    await migrate({ ...at('newer'), roles: true });
    await query('create function newer.of_two() returns integer language sql as $$ select 2 $$');
    await query('grant execute on function newer.of_two() to newer_worker');
    const add = (version: number, compatible: boolean): Promise<unknown> =>
      query(`insert into newer.migration values ($1, 'later.sql', 'x', $2)`, [version, compatible]);
    try {
      await add(2, true);
      expect((await migrate(at('newer'))).at(-1)).toMatchObject({ version: 2 });
      await expect(migrate({ ...at('newer'), roles: true })).rejects.toMatchObject({
        code: 'schema_version',
        message: expect.stringContaining('"pgqueue migrate --roles" of that version'),
        data: { schema: 'newer', version: 2 },
      });
      expect(
        await query(`select has_function_privilege('newer_worker', 'newer.of_two()', 'execute') as may`),
      ).toEqual([{ may: true }]);
      await add(3, false);
      await expect(migrate(at('newer'))).rejects.toMatchObject({
        code: 'schema_version',
        message: expect.stringContaining('upgrade the @pgqueue packages'),
      });
    } finally {
      await query('drop schema newer cascade');
      for (const role of ['producer', 'scheduler', 'worker', 'viewer', 'operator'])
        await query(`drop role newer_${role}`);
    }
  });

  test('a file that was changed after it was applied is refused', async () => {
    await migrate(at('changed'));
    await query(`update changed.migration set checksum = 'other' where version = 1`);
    await expect(migrate(at('changed'))).rejects.toMatchObject({
      code: 'schema_version',
      data: { schema: 'changed', version: 1 },
    });
  });

  test('a schema whose tables were all emptied is not migrated over', async () => {
    await migrate(at('emptied'));
    await query('truncate emptied.migration');
    await expect(migrate(at('emptied'))).rejects.toMatchObject({
      code: 'schema_version',
      message: expect.stringContaining('"migration" is empty'),
      data: { schema: 'emptied' },
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

  test('the owner of a schema that was made for it needs no right to create one', async () => {
    const owner = `made_for_${randomUUID().slice(0, 8)}`;
    await query(`create role ${owner} login password 'secret'`);
    await query(`create schema made_for authorization ${owner}`);
    const url = new URL(own.url);
    [url.username, url.password] = [owner, 'secret'];
    try {
      const all = await migrate({ connectionString: url.href, schema: 'made_for' });
      expect(all.every(({ applied }) => applied instanceof Date)).toBe(true);
      expect(await openFunctions('made_for')).toEqual([]);
    } finally {
      await query('drop schema made_for cascade');
      await query(`drop role ${owner}`);
    }
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
    // a word that only a newer version reserves is refused on the older one, too
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

  const operatorRefuses = async (schema: string, todo: string): Promise<void> => {
    const operator = createOperator({ ...at(schema), actor: { name: 'somebody', via: 'cli' } });
    const refused = { code: 'schema_version', message: expect.stringContaining(todo) };
    try {
      await expect(operator.jobs.list()).rejects.toMatchObject(refused);
      await expect(operator.status()).rejects.toMatchObject(refused);
      await expect(operator.queues.pause('mail')).rejects.toMatchObject(refused);
      await expect(operator.jobs.erase([randomUUID()])).rejects.toMatchObject(refused);
    } finally {
      await operator.close();
    }
  };

  test('cannot be read where row level security hides the migrations: the refusal says so', async () => {
    await migrate(at('hidden'));
    await query('create role hidden_reader');
    await query('grant usage on schema hidden to hidden_reader');
    await query('grant select on hidden.migration to hidden_reader');
    await query('alter table hidden.migration enable row level security');
    await query('set role hidden_reader');
    try {
      await expect(checkSchemaVersion(fromPg(client), 'hidden')).rejects.toMatchObject({
        code: 'schema_version',
        message: expect.stringContaining('row level security'),
      });
    } finally {
      await query('reset role');
      await query('drop owned by hidden_reader');
      await query('drop role hidden_reader');
    }
  });

  test('missing, older, newer', async () => {
    expect(await check('absent')).toMatchObject({
      code: 'schema_version',
      message: expect.stringContaining('run "pgqueue migrate --schema absent" first'),
    });
    await operatorRefuses('absent', 'run "pgqueue migrate --schema absent" first');
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
    await operatorRefuses('versions', 'upgrade the @pgqueue packages');
    await query('delete from versions.migration where version >= $1', [schemaVersion.needs]);
    expect(await check('versions')).toMatchObject({
      code: 'schema_version',
      message: expect.stringContaining(`needs ${schemaVersion.needs}`),
    });
  });

  test('an operator looks once, and again where it was refused', async () => {
    const operator = createOperator(at('late'));
    const refused = { code: 'schema_version', message: expect.stringContaining('pgqueue migrate') };
    try {
      await expect(operator.jobs.list()).rejects.toMatchObject(refused);
      await migrate(at('late'));
      expect(await operator.jobs.list()).toMatchObject({ items: [] });
      await query('delete from late.migration');
      expect(await operator.queues.list()).toEqual([]);
    } finally {
      await operator.close();
    }
  });
});
