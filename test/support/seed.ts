import type { Database } from '@pgqueue/postgres';
import type { QueryResult } from 'pg';
import { expect } from 'vitest';
import { emptying, flowTables, jobTables } from './empty.ts';

type Columns = Readonly<Record<string, unknown>>;
type Rows = QueryResult['rows'];

/** Puts jobs, work items and nodes into given states, through the SQL functions where those lead there. */
export interface Seed {
  readonly sql: (text: string, values?: readonly unknown[]) => Promise<Rows>;
  readonly insert: (columns?: Columns) => Promise<string>;
  readonly item: (id: string, columns?: Columns) => Promise<void>;
  /** One work item of several jobs; resolves to its position. */
  readonly batch: (ids: readonly string[], columns?: Columns) => Promise<number>;
  readonly node: (id: string, columns?: Columns) => Promise<void>;
  /** Schedules and leases exactly these; resolves to their token. */
  readonly run: (node: string, ids: readonly string[]) => Promise<string>;
  readonly die: (columns?: Columns) => Promise<string>;
  readonly reset: () => Promise<void>;
}

export function lease(node: string, timeout = '2999-01-01T00:00:00Z'): Columns {
  return {
    lock_key: node,
    lock_token: '00000000-0000-4000-8000-000000000001',
    lock_timeout: timeout,
    started: '2026-01-01T00:00:00Z',
  };
}

export function seedOf(database: () => Database): Seed {
  const sql: Seed['sql'] = async (text, values = []) => (await database().pool.query(text, [...values])).rows;
  const insertInto = async (table: string, columns: Columns): Promise<Rows> => {
    const names = Object.keys(columns);
    const marks = names.map((_, index) => `$${index + 1}`);
    return sql(
      `insert into pgqueue.${table} (${names.join(', ')}) values (${marks.join(', ')}) returning *`,
      Object.values(columns),
    );
  };
  const insert: Seed['insert'] = async (columns) =>
    (await insertInto('queue', { task: 'hello', ...columns }))[0].id;
  const node: Seed['node'] = async (id, columns = {}) => {
    await sql(
      `select * from pgqueue.register_node($1, '{"hello": {"min": 1, "max": 2, "timeoutMs": 60000}}', 2)`,
      [id],
    );
    for (const [name, value] of Object.entries(columns)) {
      await sql(`update pgqueue.node set ${name} = $2 where id = $1`, [id, value]);
    }
  };
  const run: Seed['run'] = async (name, ids) => {
    await node(name);
    await sql(`select * from pgqueue.lead('s', 60000)`);
    await sql(
      `select pgqueue.dispatch('s', (select epoch from pgqueue.scheduler_lease), $1::uuid[], null, '{"pool": "default"}', false)`,
      [ids],
    );
    const claimed = await sql(
      `select c.* from pgqueue.node n, pgqueue.claim(n.id, n.incarnation, 100) c where n.id = $1`,
      [name],
    );
    expect(new Set(claimed.map(({ id }) => id))).toEqual(new Set(ids));
    return claimed[0].token;
  };
  return {
    sql,
    insert,
    node,
    run,
    item: async (id, columns) => {
      const job = { id, version: 1, pool: 'default', task: 'hello' };
      await insertInto('work_queue', { ...job, ...columns });
    },
    batch: async (jobs, columns) => {
      const row = { jobs, version: 1, pool: 'default', task: 'hello' };
      const [{ position }] = await insertInto('work_queue', { ...row, ...columns });
      return Number(position);
    },
    die: async (columns) => {
      const id = await insert(columns);
      const token = await run('killer', [id]);
      await sql(
        `select * from pgqueue.settle(array[$1::uuid], array[$2::uuid], array['dead'], array[0::float8], array['{"message": "no"}'])`,
        [id, token],
      );
      return id;
    },
    reset: async () => {
      await sql(
        emptying([
          ...jobTables,
          ...flowTables,
          'work_front',
          'schedule',
          'queue_config',
          'scheduler_report',
          'scheduler_policy',
          'explain_request',
        ]),
      );
      await sql(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity', epoch = 0`);
    },
  };
}
