// Checks that values are sent as parameters. Only two things become part of a statement's text: the name of
// the schema, which is checked once, and the expressions decided below, one by one.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkSchemaName } from '@pgqueue/postgres/internal';
import { describe, expect, test } from 'vitest';
import { splicedIn, splicedInText } from './sql-text.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Reasons why each of these expressions can hold nothing that came from outside, by file below packages/ and
 * in bench/.
 */
const decided: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'postgres/src/calls/enqueue/known.ts': { found: 'one of two calls in the code' },
  'dashboard/src/desk.ts': { "missing.join(' and no role ')": 'in a message: names of roles' },
  'postgres/src/dashboard/activity.ts': { sums: 'columns, a constant' },
  'postgres/src/dashboard/as-role.ts': {
    'Math.ceil(statementTimeoutMs)': 'a number',
    'pg.escapeIdentifier(role)': 'quoted, and an option of the operator',
  },
  'postgres/src/dashboard/audit.ts': { documents: 'one of two lists of columns in the code' },
  'postgres/src/dashboard/dead-groups.ts': {
    columns: 'columns and $1, $2, …, a constant',
    behind: 'one of two operators in the code',
    order: 'one of two words in the code',
  },
  'postgres/src/dashboard/flows.ts': {
    'sql.table(`${schema}.flow`)': 'quoted, and made of the schema’s name',
  },
  'postgres/src/dashboard/keys.ts': {
    'sql.table(`${schema}.queue`)': 'quoted, and made of the schema’s name',
    "hasItem(schema, { id: 'q.id', running: true })": 'made of the schema’s name and constants',
  },
  'postgres/src/calls/flow/durable.ts': {
    'job.toLowerCase()': 'in a text that is hashed',
    name: 'in a text that is hashed',
  },
  'postgres/src/calls/installation/identity.ts': { routesMax: 'a constant number' },
  'postgres/src/calls/installation/moves.ts': {
    name: 'one of the names in the code',
    type: 'one of the types in the code',
    'index + 1': 'the number of a parameter',
    parameters: 'casts of $1, $2, …',
  },
  'postgres/src/reads/queues.ts': { settingsColumns: 'columns, a constant' },
  'postgres/src/reads/schedules.ts': { documents: 'one of two lists of columns in the code' },
  'postgres/src/operator/shared-limits.ts': {
    message: 'in a message: the server’s own',
    hint: 'in a message: the server’s own',
  },
  'router/src/operator/every.ts': {
    what: 'in a message',
    done: 'in a message: names of installations',
    not: 'in a message',
  },
  'postgres/src/hints/listener.ts': {
    'pg.escapeIdentifier(channel)': 'quoted, and made of the schema’s name',
  },
  'bench/src/peers/bullmq-postgres.ts': { name: 'a constant', state: 'one of four words beside it' },
  'bench/src/peers/pg-boss.ts': { queue: 'a constant' },
  'bench/src/peers/table.ts': {
    batch: 'a constant number',
    insert: 'a part of the statement',
    insertMany: 'a part of the statement',
  },
  'bench/src/actors/stage.ts': { name: 'of a database, drawn there' },
  'bench/src/works/idle.ts': { workers: 'in a text for people: a constant number' },
  'postgres/src/migrate/migrator.ts': {
    kind: 'one of four words beside it',
    lockWaitMs: 'a constant number',
  },
  'postgres/src/operator/doctor/checks.ts': {
    indexRows: 'names of our own indexes, from a constant',
    'jobsOfItems(schema)': 'made of the schema’s name',
    'isLed(schema)': 'made of the schema’s name',
    'idleSteps(schema)': 'made of the schema’s name',
    'endlessFlows(schema)': 'made of the schema’s name',
    name: 'of our own index, a constant',
    table: 'of our own index, or of flows, a constant',
    'schemaVersion.knows': 'a constant number',
    tomorrow: 'an expression, a constant',
  },
  'postgres/src/operator/doctor/invariants.ts': {
    'jobsOfItems(schema)': 'made of the schema’s name',
    'find(target.schema)': 'a check’s statement, made of the schema’s name',
    name: 'of a check, a constant',
  },
  'postgres/src/operator/doctor/mends.ts': {
    broken: 'a mend’s condition, a constant',
    'jobsOfItems(schema)': 'made of the schema’s name',
    'idleSteps(schema)': 'made of the schema’s name',
    'endlessFlows(schema)': 'made of the schema’s name',
    table: 'of flows, a constant',
    'Number.MAX_SAFE_INTEGER': 'a constant number',
    error: 'made of constants',
    "isDone(schema, 'd')": 'made of constants',
    "isDone(schema, 'q')": 'made of constants',
    row: 'an alias of a table, given as a constant',
    "toHistory(schema, 'waited, and is done already')": 'made of constants',
    "toHistory(schema, 'was dead, and waits, runs or is done as well')": 'made of constants',
    why: 'given as a constant',
  },
  'postgres/src/operator/operator.ts': {
    name: 'in a message',
    'JSON.stringify(definition?.name)': 'in a message',
    "reads.join(', ')": 'in a message',
  },
  'postgres/src/operator/status.ts': {
    'snapshot.pid': 'a message to people',
    "snapshot.application || 'no application name'": 'a message to people',
    'Math.round((snapshot.ageMs ?? 0) / 1_000)': 'a message to people',
  },
  'postgres/src/calls/dispatch.ts': {
    "values.join(',')": 'the text of an array, which is a parameter',
  },
  'postgres/src/connection/session-defaults.ts': {
    setting: 'in a message: the name of a setting, from a list',
    value: 'in a message',
    consequence: 'in a message, a constant',
    'fitting[setting]': 'in a message, a constant',
  },
  'postgres/src/calls/claim.ts': { columns: 'names of columns, a constant' },
  'postgres/src/calls/batches.ts': {
    'row.position': 'a number, in a parameter',
    'row.token': 'in a parameter, the text of an array: drawn by this node',
    'row.busyMs.length': 'a number, in a parameter',
    'Math.round(ms * 1_000)': 'a number, in a parameter',
    lockMs: 'a constant number',
    'positions.slice(1)': 'a parameter, made of numbers',
    'tokens.slice(1)': 'a parameter, made of tokens that this node drew',
    'sizes.slice(1)': 'a parameter, made of numbers',
    'busy.slice(1)': 'a parameter, made of numbers',
  },
  'postgres/src/calls/settle.ts': {
    "mayHint('$8')": 'a constant, and a parameter by its number',
    also: 'one of the constants beside it',
    'sourceOf(impatient)': 'a constant, or none',
    repeat: 'one of two constants',
    lockMs: 'a constant number',
  },
  'postgres/src/reads/dead.ts': {
    'last.died_us': 'a cursor, which is a parameter later',
    'last.id': 'a cursor, which is a parameter later',
    'row.died_us': 'a cursor, which is a parameter later',
    'row.id': 'a cursor, which is a parameter later',
  },
  'postgres/src/reads/items.ts': {
    id: 'the name of a column, a constant',
    leased: 'one of two constants beside it',
  },
  'postgres/src/reads/job-sources.ts': {
    'hex.slice(0, 8)': 'an id, which is a parameter',
    'hex.slice(8)': 'an id, which is a parameter',
    'sql.table(`${database.schema}.${name}`)': 'quoted, and one of four names in the code',
    name: 'one of four names in the code',
    'sql.table(`${schema}.flow_step`)': 'quoted, and made of the schema’s name',
    "sql.raw(hasItem(schema, { id: 't.id' }))": 'made of the schema’s name and constants',
  },
  'postgres/src/reads/jobs.ts': {
    'summaryColumns(schema)': 'columns, made of the schema’s name',
    'sql.raw(summaryColumns(schema))': 'columns, made of the schema’s name',
    'sql.table(`${schema}.job`)': 'quoted, and made of the schema’s name',
  },
  'postgres/src/reads/queue-settings.ts': {
    settingsColumns: 'columns, a constant',
    retentionMs: 'the text of an interval, which is a parameter',
  },
  'postgres/src/reads/recorded.ts': {
    'row.finished_us': 'a cursor, which is a parameter later',
    'row.id': 'a cursor, which is a parameter later',
  },
  'postgres/src/calls/enqueue/enqueue-columns.ts': {
    'row.timeoutMs': 'the text of an interval, which COPY reads as data',
    "source('at')": 'the name of a column, or $1, $2, …',
    "source('delay')": 'the name of a column, or $1, $2, …',
    "source('timeout')": 'the name of a column, or $1, $2, …',
  },
  'postgres/src/operator/explain/explain.ts': { 'JSON.stringify(key)': 'in the text of an explanation' },
  'postgres/src/calls/enqueue/enqueue-copy.ts': { names: 'of columns, constants' },
  'postgres/src/calls/enqueue/enqueue.ts': {
    "versions === undefined ? '' : ' @'": 'in the key of a cache: one of two constants',
    'values.push(list)': 'the number of a parameter',
    "given.join(', ')": 'parameters, by their numbers',
    home: 'a call of at_home with $1, $2, …, made of the schema’s name',
    'home.slice(2)': 'that call, without its comma',
    call: 'a part of the statement',
    channel: 'a parameter, by its number',
    "hints ? ' +' : ''": 'in the key of a map',
    'hintedFacts(`${facts}::text`)': 'a constant, and a parameter by its number',
    "hintedFacts('f.facts')": 'a constant, and the name of a column',
    given: 'a join with parameters, cut into lists',
    ids: 'a parameter, cut into a list',
    told: 'a part of the statement',
    'mayHint(channel)': 'a constant, and a parameter by its number',
    'parameters + n': 'the number of a parameter',
    facts: 'a parameter, by its number',
    notify: 'a parameter, by its number',
    from: 'a part of the statement',
    insert: 'a part of the statement',
    "json.join(',')": 'JSON of a parameter',
    list: 'columns’ expressions, constants',
    "lists.map((of) => of.list).join(', ')": 'parameters, cut into lists',
    "lists.map(({ name }) => name).join(', ')": 'names of columns, constants',
    name: 'of a column, a constant',
    parameter: '$1, $2, …',
    "quoted.join(',')": 'an array’s text, which is a parameter',
    type: 'of a column, a constant',
    "used.map(({ name }) => name).join(', ')": 'names of columns, constants',
    'value.replace(/["\\\\]/g, String.raw`\\$&`)': 'an array’s text, which is a parameter',
    "values.push(`[${json.join(',')}]`)": 'the number of a parameter',
    'values.push(arrayLiteral(texts))': 'the number of a parameter',
    'values.push(first)': 'the number of a parameter',
    "values.push(texts.join('\\n'))": 'the number of a parameter',
  },
  'postgres/src/calls/enqueue/job-json.ts': {
    'fields.slice(0, -1)': 'JSON of a parameter',
    'row.payload': 'JSON of a parameter',
    "rows.map((row) => jobJson(row)).join(',')": 'JSON of a parameter',
  },
  'postgres/src/calls/flow/results.ts': { lockMs: 'a number of our own' },
  'postgres/src/calls/flow/start.ts': {
    "rows.map(flowJson).join(',')": 'JSON of a parameter',
    home: 'a call of at_home with $1, $2, …, made of the schema’s name',
    'fields.slice(0, -1)': 'JSON of a parameter',
    "row.steps.map(stepJson).join(',')": 'JSON of a parameter',
    'jobsJson(step.jobs)': 'JSON of a parameter',
    "ids.join(',')": 'an array’s text, which is a parameter',
  },
  'postgres/src/connection/target.ts': { call: 'a call of our own function, with $1, $2, …' },
  'producer/src/adapters/postgres-js.ts': {
    'sql.unsafe(text, [...values] as (string | number | boolean | null)[])':
      'that library’s name for a text with parameters',
  },
  'producer/src/adapters/drizzle.ts': {
    'sql.raw(piece)': 'our own statement between its parameters',
  },
};

const isDecided = ({ file, expression }: { readonly file: string; readonly expression: string }): boolean =>
  decided[file.replace('packages/', '')]?.[expression] !== undefined;

describe('no statement is made of values', () => {
  const spliced = splicedIn(root);

  test('but of those that are decided', () => {
    expect(spliced.filter((one) => !isDecided(one))).toEqual([]);
  });

  test('and every decision is about something', () => {
    const found = new Set(spliced.map(({ file, expression }) => `${file}: ${expression}`));
    const wanted = Object.entries(decided).flatMap(([file, expressions]) =>
      Object.keys(expressions).map(
        (expression) => `${file.startsWith('bench/') ? '' : 'packages/'}${file}: ${expression}`,
      ),
    );
    expect(wanted.filter((one) => !found.has(one))).toEqual([]);
  });

  test.each([
    ['a value in a statement', 'query(`select * from ${schema}.queue where id = ${id}`)', 'id'],
    ['a quoted one', "query(`delete from ${schema}.queue where id = '${id}'`)", 'id'],
    ['a name', 'query(`update ${table} set a = 1`)', 'table'],
    [
      'a sum of texts',
      "query('select * from queue where id = ' + id)",
      "'select * from queue where id = ' + id",
    ],
    ['a channel', 'query(`listen ${channel}`)', 'channel'],
    ['an order', 'const order = `order by ${column}`', 'column'],
    ['kysely’s back door', 'sql.raw(text)', 'sql.raw(text)'],
    ['a literal of kysely’s', 'sql`select ${sql.lit(value)}`', 'sql.lit(value)'],
  ])('%s is caught', (_what, source, expression) => {
    const file = 'packages/worker/src/seeded.ts';
    expect(splicedInText(file, source)).toEqual([{ file, expression }]);
  });

  test('a mere fragment is caught where statements are written', () => {
    const file = 'packages/postgres/src/calls/seeded.ts';
    expect(splicedInText(file, 'const part = `and q.key = ${key}`')).toEqual([{ file, expression: 'key' }]);
    expect(splicedInText(file, 'throw new Error(`no answer for ${id}`)')).toEqual([]);
    expect(splicedInText(file, 'const part = sql`and q.key = ${key}`')).toEqual([]);
  });
});

describe('no function in SQL makes a statement of values', () => {
  /** %s takes a value as it is: only of types whose text the database quotes itself. */
  const quotedTypes = /^(?:f\.signature|v_grant\.role)$/;

  function unquoted(sql: string): readonly string[] {
    const statements =
      sql.replaceAll(/--.*$/gm, '').match(/\bexecute\s+(?!on\s+function|function\s)[^;]*;/g) ?? [];
    return statements.filter((statement) => {
      const [, template, rest = ''] = /^execute format\('([^']*)'((?:, [^;]*)?)\);$/.exec(statement) ?? [];
      if (template === undefined) return true;
      const kinds = [...template.matchAll(/%(.)/g)].map(([, kind]) => kind);
      const values = rest.split(', ').slice(1);
      return kinds.some(
        (kind, index) => kind !== 'I' && kind !== 'L' && !quotedTypes.test(values[index] ?? ''),
      );
    });
  }

  const files = globSync('migrations/*.sql', { cwd: root }).toSorted();
  test.each(files)('%s', (file) => {
    expect(unquoted(readFileSync(join(root, file), 'utf8'))).toEqual([]);
  });

  test('a seeded one is caught', () => {
    const dropping = "execute format('drop table %I', v_name);";
    expect(unquoted(dropping)).toEqual([]);
    for (const seeded of [
      dropping.replace('%I', '%s'),
      "execute 'drop table ' || v_name;",
      'execute v_statement;',
    ]) {
      expect(unquoted(`begin ${seeded} end`)).toEqual([seeded]);
    }
  });
});

describe('the name of a schema', () => {
  test.each(['pgqueue', '_', 'a', 'q2', `a${'b'.repeat(40)}`])('%s is one', (schema) => {
    expect(checkSchemaName(schema)).toBe(schema);
  });

  test.each([
    '',
    'Queue',
    '1st',
    'a-b',
    'a.b',
    'a b',
    'a"b',
    "a'b",
    'a;drop table users',
    'a\u0000',
    'a\n',
    'ä',
    'pg_catalog',
    'public',
    'select',
    'information_schema',
    `a${'b'.repeat(41)}`,
  ])('%j is none', (schema) => {
    expect(() => checkSchemaName(schema)).toThrow(expect.objectContaining({ code: 'configuration' }));
  });
});
