import { migrate } from '@pgqueue/postgres';
import { createScheduler } from '@pgqueue/scheduler';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { statements } from './roles-at-work.ts';
import { ownersAlone, rights, roles } from './roles.ts';

// a schema of its own: its roles belong to the whole server
const schema = 'database_roles_test';
// some servers ask for one
const password = 'of-the-test';
type Rows = readonly Readonly<Record<string, unknown>>[];

const own = useDatabase();
let owner: pg.Client;
const sql = async (text: string, values: unknown[] = []): Promise<Rows> =>
  (await owner.query(text, values)).rows;

beforeAll(async () => {
  await migrate({ connectionString: own.url, schema, roles: true });
  owner = new pg.Client({ connectionString: own.url });
  await owner.connect();
  await owner.query(`set search_path to ${schema}`);
  for (const role of roles)
    await owner.query(
      `create role ${schema}_${role}_login login password '${password}' in role ${schema}_${role}`,
    );
  await owner.query(`create role ${schema}_stranger login password '${password}'`);
});
afterAll(async () => {
  await owner.query(`drop schema ${schema} cascade`);
  for (const role of roles) {
    await owner.query(`drop owned by ${schema}_${role}`);
    await owner.query(`drop role ${schema}_${role}_login, ${schema}_${role}`);
  }
  await owner.query(`drop role ${schema}_stranger`);
  await owner.end();
});

/** Runs statements in a session of that role, in a transaction that is rolled back; resolves to the rows of the last. */
async function as(login: string, ...texts: readonly string[]): Promise<Rows> {
  const url = new URL(own.url);
  url.username = `${schema}_${login}`;
  url.password = password;
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  try {
    await client.query(`set search_path to ${schema}`);
    await client.query('begin');
    let rows: Rows = [];
    for (const text of texts) ({ rows } = await client.query(text));
    return rows;
  } finally {
    await client.end();
  }
}

test('a scheduler that has no right to schedule says so when it starts, and does not wait for ever', async () => {
  const url = new URL(own.url);
  [url.username, url.password] = [`${schema}_worker_login`, password];
  const scheduler = createScheduler({ connectionString: url.href, schema });
  await expect(scheduler.start()).rejects.toMatchObject({ code: '42501' });
  await scheduler.stop();
  url.username = `${schema}_scheduler_login`;
  const other = createScheduler({ connectionString: url.href, schema });
  await other.start();
  await expect.poll(() => other.leads).toBe(true);
  await other.stop();
});

async function tablesOf(role: string): Promise<Readonly<Record<string, string>>> {
  const rows = await sql(
    `select c.relname as name, string_agg(case
        when has_table_privilege($1, c.oid, p) then p
        else p || '(' || (select string_agg(a.attname, ' ' order by a.attname collate "C") from pg_attribute a
                          where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                            and has_column_privilege($1, c.oid, a.attnum, p)) || ')' end, ' ' order by p) as rights
     from pg_class c, unnest(array['select', 'insert', 'update', 'references', 'delete', 'truncate', 'trigger']) p
     where c.relnamespace = $2::regnamespace and c.relkind in ('r', 'p', 'v') and c.relname !~ '^history_[0-9]{8}$'
       and (has_table_privilege($1, c.oid, p) or (p in ('select', 'insert', 'update', 'references') and has_any_column_privilege($1, c.oid, p)))
     group by 1`,
    [role, schema],
  );
  return Object.fromEntries(rows.map((row) => [row['name'], row['rights']]));
}

async function functionsOf(role: string): Promise<string> {
  const [row] = await sql(
    `select coalesce(string_agg(distinct p.proname::text, ' ' order by p.proname::text), '') as names
     from pg_proc p where p.pronamespace = $2::regnamespace and has_function_privilege($1, p.oid, 'execute')`,
    [role, schema],
  );
  return String(row?.['names']);
}

describe('every table and function has a decision', () => {
  test.each(roles)('%s', async (role) => {
    expect(await functionsOf(`${schema}_${role}`)).toBe(rights[role].functions);
    expect(await tablesOf(`${schema}_${role}`)).toEqual(rights[role].tables);
  });

  test('the rest is the owner’s alone, and nothing is for everyone', async () => {
    const decided = new Set([
      ...roles.flatMap((role) => rights[role].functions.split(' ')),
      ...ownersAlone.split(' '),
    ]);
    const all = await sql(
      `select distinct proname::text as name from pg_proc where pronamespace = $1::regnamespace`,
      [schema],
    );
    expect(all.map(({ name }) => name).filter((name) => !decided.has(String(name)))).toEqual([]);
    expect([await functionsOf('public'), await functionsOf(`${schema}_stranger`)]).toEqual(['', '']);
    expect([await tablesOf('public'), await tablesOf(`${schema}_stranger`)]).toEqual([{}, {}]);
    const sequences = await sql(
      `select c.relname from pg_class c, unnest($1::text[]) r where c.relnamespace = $2::regnamespace and c.relkind = 'S'
         and has_sequence_privilege(r, c.oid, 'usage, select, update')`,
      [[...roles.map((role) => `${schema}_${role}`), 'public'], schema],
    );
    expect(sequences).toEqual([]);
  });

  test('every function pins its search path, with pg_temp last, but for what is read as a part of another', async () => {
    const loose = await sql(
      `select proname from pg_proc where pronamespace = $1::regnamespace and proname not in ('node_takes', 'need_met')
         and not coalesce(proconfig @> array['search_path=' || $1 || ', pg_temp'], false)`,
      [schema],
    );
    expect(loose).toEqual([]);
  });
});

describe('in real sessions', () => {
  for (const role of roles) {
    test.each(statements[role].can)(`${role} can: %s`, async (text) => {
      expect(await as(`${role}_login`, text)).toBeInstanceOf(Array);
    });
    test.each(statements[role].cannot)(`${role} can't: %s`, async (text) => {
      await expect(as(`${role}_login`, text)).rejects.toMatchObject({ code: '42501' });
    });
  }

  test('a stranger does not even get into the schema', async () => {
    for (const text of ['select * from queue', 'select uuid_v7()']) {
      await expect(as('stranger', text.replace(/(queue|uuid_v7)/, `${schema}.$1`))).rejects.toMatchObject({
        code: '42501',
      });
    }
  });

  test("temporary objects and a search path of the caller don't come between a function and its tables", async () => {
    await owner.query(`insert into queue (task) values ('hello')`);
    const traps = [
      `create temp table node as select 'n'::text as id, 'alive' as state`,
      'create temp table queue (id uuid, queue text)',
      'create temp table work_queue (id uuid)',
      `create function pg_temp.clock_timestamp() returns timestamptz language sql as $$ select 'infinity'::timestamptz $$`,
      'set local search_path to pg_temp',
    ];
    expect(await as('worker_login', ...traps, `select ${schema}.queue_length() as n`)).toEqual([{ n: '1' }]);
    const registered = `select accepted from ${schema}.register_node('n', '{}')`;
    expect(await as('worker_login', ...traps, registered)).toEqual([{ accepted: true }]);
    expect(
      await as(
        'worker_login',
        ...traps,
        registered,
        `select state from ${schema}.node where heartbeat < now() + interval '1 h'`,
      ),
    ).toEqual([{ state: 'alive' }]);
  });
});
