// Tries every argument of every function that a role may call, with hostile values of its type. Functions and
// arguments are read from the database, so that new ones are tried, too.
import { migrate } from '@pgqueue/postgres';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { hostileTexts, nested } from '../../support/hostile.ts';
import { roles } from './roles.ts';

const schema = 'security_sql_test';

interface Callable {
  readonly name: string;
  readonly types: readonly string[];
  readonly names: readonly string[];
}

const own = useDatabase();
let owner: pg.Client;
const job = '00000000-0000-7000-8000-000000000001';
const token = '00000000-0000-4000-8000-000000000002';

/** Values that let each call run as far as possible, while another of its arguments is hostile. */
const good: Readonly<Record<string, string>> = {
  p_leader: 'leader',
  p_epoch: '1',
  p_node: 'node',
  p_incarnation: token,
  p_token: token,
  p_tokens: `{${token}}`,
  p_id: job,
  p_ids: `{${job}}`,
  p_job: job,
  p_jobs: '[{"n": 0, "task": "t", "unique_key": "u", "mode": "replace"}]',
  p_tasks: '{"t": {"min": 1, "max": 2, "timeoutMs": 1000}}',
  p_outcomes: '{retry}',
  p_delays_ms: '{1}',
  p_data: '{"{}"}',
  p_pools: '{default}',
  p_versions: '{NULL}',
  p_queue: 'default',
  p_cron: '* * * * *',
  p_timezone: 'UTC',
  p_schedule: 'nightly',
};
const goodOfType: Readonly<Record<string, string>> = {
  'text[]': '{a}',
  'uuid[]': `{${job}}`,
  'bigint[]': '{1}',
  'integer[]': '{1}',
  'double precision[]': '{1}',
  'xid[]': '{1}',
  text: 'a',
  uuid: job,
  jsonb: '{}',
  boolean: 'false',
  interval: '1 second',
  'timestamp with time zone': '2026-01-01T00:00:00Z',
  integer: '1',
  bigint: '1',
  smallint: '1',
  'double precision': '1',
};

const texts = hostileTexts.filter((text) => !text.includes('\u0000')).map((text) => text.toWellFormed());
const listOf = (values: readonly (string | null)[]): string =>
  `{${values.map((value) => (value === null ? 'NULL' : `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`)).join(',')}}`;
const documents: readonly string[] = [
  'null',
  '[]',
  '{}',
  '1',
  '-0',
  '1e400',
  '"a"',
  'true',
  '[null]',
  '[[]]',
  '[{}]',
  '[1]',
  '{"": null}',
  '{"__proto__": {"a": 1}, "constructor": {"prototype": null}}',
  JSON.stringify(nested(2_000)),
  JSON.stringify(Array.from({ length: 2_000 }, () => null)),
  JSON.stringify(texts),
  JSON.stringify(Object.fromEntries(texts.map((text, n) => [text.slice(0, 50), n]))),
];
const scalars = [
  'null',
  '"a"',
  '-1',
  '1e308',
  '99999999999',
  '[]',
  '{}',
  'true',
  '"2026-01-01"',
  '"infinity"',
];
const jobFields =
  'n id queue task key priority attributes run_after delay_ms expires_at timeout_ms max_tries max_crashes retry unique_key mode max_wait_ms payload payload_version trace again'.split(
    ' ',
  );

const hostileOfType: Readonly<Record<string, readonly string[]>> = {
  text: texts,
  'text[]': [
    '{}',
    '{NULL}',
    '{{a},{b}}',
    '[5:6]={a,b}',
    listOf(texts.slice(0, -1)),
    listOf(Array.from({ length: 10_001 }, () => 'a')),
  ],
  uuid: ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
  'uuid[]': [
    '{}',
    '{NULL}',
    `{${job},${job}}`,
    `{NULL,${job}}`,
    `{{${job}},{${job}}}`,
    `[0:1]={${job},${token}}`,
    listOf(Array.from({ length: 10_001 }, () => job)),
  ],
  json: documents,
  jsonb: documents,
  boolean: ['true', 'false'],
  interval: ['0', '-1 day', '178000000 years', '-178000000 years', '2147483647 months'],
  'timestamp with time zone': ['infinity', '-infinity', '294276-12-31', '4714-11-24 BC'],
  integer: ['0', '-1', '2147483647', '-2147483648'],
  bigint: ['0', '-1', '9223372036854775807', '-9223372036854775808'],
  'bigint[]': ['{}', '{NULL}', '{-1,9223372036854775807}', '{{1},{2}}'],
  'integer[]': ['{}', '{NULL}', '{-1,2147483647}', '{{1},{2}}'],
  real: ['0', '-1', 'NaN', 'Infinity', '-Infinity', '3e38'],
  'real[]': ['{}', '{NULL}', '{NaN}', '{Infinity}', '{-3e38}', '{1,2}', '{{1},{2}}'],
  smallint: ['0', '-1', '32767', '-32768'],
  'double precision': ['0', '-0', '-1', 'NaN', 'Infinity', '-Infinity', '1e308', '-1e308', '5e-324'],
  'double precision[]': ['{}', '{NULL}', '{NaN}', '{Infinity}', '{-1e308}', '{1,2}', '{{1},{2}}'],
  queue: [
    `(${','.repeat(23)})`,
    `(${job},1${',infinity'.repeat(3)},-1 day,0,-1,-1,-1,-1,-1${',[]'.repeat(12)},true)`,
  ],
  'xid[]': ['{}', '{0}', '{4294967295}', '{{1},{2}}'],
};

function hostileFor(type: string, name: string): readonly (string | null)[] {
  const values = hostileOfType[type];
  if (values === undefined) throw new Error(`no hostile values for type ${type} of ${name}: add some`);
  const fields = jobFields.flatMap((field) =>
    scalars.map((value) => `[{"n": 0, "task": "t", "${field}": ${value}}]`),
  );
  const waits = scalars.map(
    (value) =>
      `[{"n": 0, "task": "t", "unique_key": "u", "mode": "debounce", "delay_ms": 5, "max_wait_ms": ${value}}]`,
  );
  return [null, ...values, ...(name === 'p_jobs' ? [...fields, ...waits] : [])];
}

beforeAll(async () => {
  await migrate({ connectionString: own.url, schema, roles: true });
  owner = new pg.Client({ connectionString: own.url });
  await owner.connect();
  await owner.query(`set search_path to ${schema}`);
  await owner.query(`select lead('leader', 3600000)`);
  await owner.query(`select register_node('node', '{"t": {"min": 1, "max": 2}}', 5, p_incarnation => $1)`, [
    token,
  ]);
  await owner.query(`insert into queue (id, task, unique_key) values ($1, 't', 'u')`, [job]);
  await owner.query(`insert into queue (task, key) select 't', n::text from generate_series(1, 20) n`);
  await owner.query(
    `insert into work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started)
     values ($1, 1, 'default', 't', 'node', $2, now() + interval '1 hour', now())`,
    [job, token],
  );
  await owner.query(
    `insert into schedule (name, cron, task, next_slot) values ('nightly', '* * * * *', 't', now())`,
  );
});
afterAll(async () => {
  await owner.query('reset role');
  await owner.query(`drop schema ${schema} cascade`);
  for (const role of roles) {
    await owner.query(`drop owned by ${schema}_${role}`);
    await owner.query(`drop role ${schema}_${role}`);
  }
  await owner.end();
});

async function callables(role: string): Promise<readonly Callable[]> {
  const { rows } = await owner.query<Callable>(
    `select p.proname as name, array(select format_type(t, null) from unnest(p.proargtypes) t)::text[] as types,
            coalesce(p.proargnames[1:p.pronargs], '{}')::text[] as names
     from pg_proc p where p.pronamespace = $2::regnamespace and has_function_privilege($1, p.oid, 'execute')
     order by p.proname`,
    [`${schema}_${role}`, schema],
  );
  return rows;
}

/** SQLSTATEs that a caller with odd arguments may get: errors about the values, about a broken rule, or that there is none. */
const clean = /^(?:22...|23...|P0002|PQ00.|40001)$/;

/** Resolves to the error that refused the statement; undefined if it was accepted. Rolls everything back. */
async function attempt(
  text: string,
  values: readonly (string | null)[],
): Promise<pg.DatabaseError | undefined> {
  await owner.query('begin');
  try {
    await owner.query(`set local statement_timeout = '5s'`);
    await owner.query(text, [...values]);
    return undefined;
  } catch (error) {
    if (error instanceof pg.DatabaseError) return error;
    throw error;
  } finally {
    await owner.query('rollback');
  }
}

function oddly(what: string, value: string | null, error: pg.DatabaseError | undefined): readonly string[] {
  if (error === undefined || clean.test(error.code ?? '')) return [];
  return [`${what} = ${JSON.stringify(value).slice(0, 60)}: ${error.code} ${error.message}`];
}

async function columns(
  role: string,
): Promise<readonly { readonly table: string; readonly column: string; readonly type: string }[]> {
  const { rows } = await owner.query(
    `select c.relname as table, a.attname as column, format_type(a.atttypid, null) as type
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = $2::regnamespace and has_column_privilege($1, c.oid, a.attnum, 'insert') order by 1, 2`,
    [`${schema}_${role}`, schema],
  );
  return rows;
}

/** Columns that a row needs besides the tested one. */
const needed: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  queue: { task: 't' },
  queue_config: { queue: 'q' },
  schedule: { name: 's', cron: '* * * * *', task: 't' },
};

describe.each(roles)('%s', (role) => {
  test('hostile arguments are refused as such, or do nothing odd', async () => {
    const functions = await callables(role);
    expect(functions.length).toBeGreaterThan(2);
    await owner.query(`set role ${schema}_${role}`);
    const odd: string[] = [];
    let calls = 0;
    for (const callable of functions) {
      const usual = callable.types.map(
        (type, index) => good[callable.names[index] ?? ''] ?? goodOfType[type] ?? null,
      );
      const marks = callable.types.map((type, index) => `$${index + 1}::text::${type}`);
      const text = `select * from ${callable.name}(${marks.join(', ')})`;
      for (const [index, type] of callable.types.entries()) {
        for (const value of hostileFor(type, callable.names[index] ?? '')) {
          const error = await attempt(text, usual.with(index, value));
          calls += 1;
          odd.push(...oddly(`${callable.name}(${callable.names[index]})`, value, error));
        }
      }
    }
    await owner.query('reset role');
    expect(odd).toEqual([]);
    expect(calls).toBeGreaterThan(functions.length);
  });

  test('so are hostile values in the columns that it may write', async () => {
    const writable = await columns(role);
    await owner.query(`set role ${schema}_${role}`);
    const odd: string[] = [];
    for (const { table, column, type } of writable) {
      for (const value of hostileFor(type, column)) {
        const row: Record<string, string | null> = { ...needed[table], [column]: value };
        const marks = Object.keys(row).map((name, index) =>
          name === column ? `$${index + 1}::text::${type}` : `$${index + 1}`,
        );
        const text = `insert into ${table} (${Object.keys(row).join(', ')}) values (${marks.join(', ')})`;
        odd.push(...oddly(`${table}.${column}`, value, await attempt(text, Object.values(row))));
      }
    }
    await owner.query('reset role');
    expect(odd).toEqual([]);
    expect(writable.length > 0).toBe(['producer', 'operator'].includes(role));
  });
});
