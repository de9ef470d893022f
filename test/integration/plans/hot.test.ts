import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { expect, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { pin } from './pinned-support.ts';
import { load, openExplained, planProblems, tokenOfLoad } from './support.ts';

/**
 * After VACUUM has seen a table that was empty for a moment, the planner expects one row or none. Each hot
 * statement must use its index then, too. So the same statements are explained on empty tables, on large ones
 * with statistics of one row, and on large ones.
 */
const states: Readonly<Record<string, (client: pg.Client, url: string) => Promise<void>>> = {
  empty: vacuum,
  stale: async (client) => {
    await load(client, 20);
    await vacuum(client);
    await load(client, 100_000);
  },
  'stale, seen empty': async (client) => {
    await vacuum(client);
    await load(client, 100_000);
  },
  // pages, and not one row in them: the planner compares plans that cost the same to it
  'stale, seen emptied': async (client) => {
    await load(client, 2_000);
    await kill(client, 100);
    for (const table of tables) await client.query(`delete from pgqueue.${table}`);
    for (const table of tables) await client.query(`analyze pgqueue.${table}`);
    await load(client, 100_000);
    await kill(client, 5_000);
  },
  // vacuum removes nothing: a scan of a whole index reads all dead rows
  'a few, behind dead rows, seen empty': async (client, url) => {
    await load(client, 100_000);
    const holder = await pin(url, 'reads');
    for (const table of ['work_queue', 'queue']) await client.query(`delete from pgqueue.${table}`);
    await vacuum(client);
    await load(client, 400);
    await holder.end();
  },
  large: async (client) => {
    await load(client, 100_000);
    await vacuum(client);
  },
};

/** Inserts dead letters. */
async function kill(client: pg.Client, jobs: number): Promise<void> {
  await client.query(
    `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, payload_version, attributes, payload, errors)
     select pgqueue.uuid_v7(), 'q0', 't', 'k', 0, 'max_tries', 20, 20, 0, 3, clock_timestamp(), clock_timestamp(), 1, '{}', '{}', '[]' from generate_series(1, $1::integer)`,
    [jobs],
  );
}

const tables = ['queue', 'work_queue', 'history_default', 'dead_letter'] as const;

async function vacuum(client: pg.Client): Promise<void> {
  for (const table of tables) await client.query(`vacuum analyze pgqueue.${table}`);
}

const leader = ['leader', 1] as const;
const node = randomUUID();

/** Returns the parameter of a claim by rows. */
const take = (max: number, ahead: number): string => JSON.stringify({ max, ahead, from: 0, reap: true });

/** A page of lanes, as `look` reads it; ids of a span in which none lies. */
const page = {
  queue: 'q0',
  key: 'k5',
  keys: 200,
  want: 500,
  starts: {},
  lookahead: 0,
  named: [],
  from: '00000000-0000-7000-8000-000000000001',
  to: '00000000-0000-7000-8000-000000000000',
  ranges: {},
};

/**
 * The statements, each run once on the state that the earlier ones left. Ids come from the tables, so that
 * the statements have work to do.
 */
const statements: Readonly<Record<string, readonly [string, readonly unknown[]]>> = {
  tick_due: ['select pgqueue.tick_due()', []],
  promote: ['select * from pgqueue.promote($1, $2, 500)', leader],
  expire: ['select pgqueue.expire($1, $2, 500)', leader],
  tick_state: ['select pgqueue.tick_state(true, $1, $2)', [1, [0, -1]]],
  items_behind: ['select pgqueue.items_behind(5000, 100)', []],
  look: [
    'select * from pgqueue.look($1)',
    [
      JSON.stringify({
        ...page,
        starts: { q0: { k3: [0, 5000] } },
        lookahead: 100,
        named: [
          ['q0', 'k1', 20],
          ['q1', 'k2', 5],
        ],
        from: '00000000-0000-7000-8000-000000000000',
        to: 'ffffffff-ffff-7fff-bfff-ffffffffffff',
      }),
    ],
  ],
  'look from where it had come to': [
    'select * from pgqueue.look($1)',
    [
      JSON.stringify({
        ...page,
        ranges: {
          q0: {
            k3: [
              [-2147483648, -1, -1, 9007199254740991, false, false],
              [0, -1, 0, 5000, true, false],
              [0, 5000, 2147483647, 9007199254740991, false, true],
            ],
          },
        },
      }),
    ],
  ],
  at_home: [`select pgqueue.at_home('{k1,k2}', '{0,0}', '{00000000-0000-7000-8000-000000000001}')`, []],
  advance_front: ['select pgqueue.advance_front()', []],
  behind: ["select * from pgqueue.behind('q0', 'k3', '{0, 5}', '{5000, 100}')", []],
  count_behind: ["select pgqueue.count_behind('{q0, q0}', '{k3, k4}', '{0, 5}', '{5000, 100}', 100)", []],
  item_facts: ['select * from pgqueue.item_facts(array(select generate_series(1, 500)::bigint))', []],
  dispatch: [
    `select * from pgqueue.dispatch($1, $2, $3::uuid[], array_fill(null::xid, array[cardinality($3::uuid[])]),
       jsonb_build_object('pool', 'default', 'parts', '{"p": {}}'::jsonb, 'settled', '[1]'::jsonb,
                          'supposed', jsonb_build_object('ended', jsonb_build_array(gen_random_uuid()), 'config', pgqueue.config_mark())), true)`,
    [...leader, 'pending'],
  ],
  dispatch_backlog: [
    `select * from pgqueue.dispatch_backlog($1, $2, '{"queue": "q0", "key": "k3", "priority": 0, "after": 0, "task": "t", "version": 1,
       "pool": "default", "jobs": 100, "size": 10, "slots": 4}')`,
    [...leader],
  ],
  holds_true: [
    `select pgqueue.holds_true(jsonb_build_object('config', pgqueue.config_mark(), 'ended', '[]'::jsonb, 'jobs', (
       select coalesce(jsonb_agg(jsonb_build_object(
         'id', q.id, 'queue', q.queue, 'key', q.key, 'task', q.task, 'version', q.payload_version, 'priority', q.priority, 'seq', q.seq,
         'attributes', q.attributes, 'createdMs', date_part('epoch', q.created) * 1000, 'after', q.seq - 10)), '[]')
       from (select * from pgqueue.queue where id = any ($1::uuid[]) limit 3) q)))`,
    ['pending'],
  ],
  'dispatch of batches': [
    `select * from pgqueue.dispatch($1, $2, $3::uuid[], array_fill(null::xid, array[cardinality($3::uuid[])]),
       jsonb_build_object('pool', 'default', 'front', true, 'rows', array(select (n + 9) / 10 from generate_series(1, cardinality($3::uuid[])) n)::text), true)`,
    [...leader, 'pending'],
  ],
  take_back: ['select * from pgqueue.take_back($1, $2, $3::uuid[])', [...leader, 'ready']],
  'take_back of members': [
    'select * from pgqueue.take_back($1, $2, $3::uuid[])',
    [...leader, 'ready members'],
  ],
  'cancel of members': ['select * from pgqueue.cancel($1::uuid[])', ['ready members']],
  job_result: ['select * from pgqueue.job_result($1::uuid[], false)', ['pending']],
  'job_result of jobs of batches': ['select * from pgqueue.job_result($1::uuid[])', ['held members']],
  'job_result of jobs that have ended': [
    'select * from pgqueue.job_result(array(select gen_random_uuid() from generate_series(1, 500)))',
    [],
  ],
  key_taken: ["select pgqueue.key_taken('{00000000-0000-8000-8000-000000000001}')", []],
  waiting_job: [
    'select pgqueue.waiting_job(id) from (select unnest($1::uuid[]) as id limit 3) x',
    ['pending'],
  ],
  wait_facts: [
    'select pgqueue.wait_facts(id, 1000) from (select unnest($1::uuid[]) as id limit 3) x',
    ['pending'],
  ],
  reap: ['select * from pgqueue.reap(100)', []],
  claim: ['select * from pgqueue.claim($1, $2, 100, $3)', ['node', node, tokenOfLoad]],
  'claim_rows, beyond the free slots': [
    'select * from pgqueue.claim_rows($1, $2, $3, $4)',
    ['node', node, tokenOfLoad, take(3, 3)],
  ],
  claim_rows: [
    'select * from pgqueue.claim_rows($1, $2, $3, $4)',
    ['node', node, tokenOfLoad, take(100, 10)],
  ],
  extend: [
    `select * from pgqueue.extend($1::uuid[], array_fill($2::uuid, array[cardinality($1::uuid[])]), array_fill(1000::float8, array[cardinality($1::uuid[])]))`,
    ['leased', tokenOfLoad],
  ],
  save_checkpoint: [
    `select pgqueue.save_checkpoint(id, $2, '{}') from (select unnest($1::uuid[]) as id limit 3) x`,
    ['leased', tokenOfLoad],
  ],
  crash_job: [
    `select pgqueue.crash_job(id, $2, 'it died') from (select unnest($1::uuid[]) as id limit 3) x`,
    ['leased', tokenOfLoad],
  ],
  heartbeat: [
    `select * from pgqueue.heartbeat_node('node', $1, 1, false, $2::uuid[], array_fill($3::uuid, array[cardinality($2::uuid[])]))`,
    [node, 'leased', tokenOfLoad],
  ],
  'heartbeat of members': [
    `select * from pgqueue.heartbeat_node('node', $1, 1, false, $2::uuid[], array_fill($3::uuid, array[cardinality($2::uuid[])]))`,
    [node, 'held members', tokenOfLoad],
  ],
  settle_rows: [
    `select pgqueue.settle_rows($1::bigint[], array_fill($2::uuid, array[cardinality($1::bigint[])]), array_fill(10, array[cardinality($1::bigint[])]),
       array_fill(1::float4, array[cardinality($1::bigint[]) * 10]), array_fill('{"rows": 1}'::text, array[cardinality($1::bigint[]) * 10]))`,
    ['held batches', tokenOfLoad],
  ],
  'take_out of some': [
    'select pgqueue.take_out(position, $2, $3::uuid[]) from unnest($1::bigint[]) as position',
    ['held batches', tokenOfLoad, 'held members'],
  ],
  release_rows: [
    'select pgqueue.release_rows($1::bigint[], array_fill($2::uuid, array[cardinality($1::bigint[])]))',
    ['held batches', tokenOfLoad],
  ],
  take_out: [
    'select pgqueue.take_out(position, $2) from unnest($1::bigint[]) as position',
    ['held batches', tokenOfLoad],
  ],
  'release of members': [
    `select * from pgqueue.release($1::uuid[], array_fill($2::uuid, array[cardinality($1::uuid[])]))`,
    ['held members', tokenOfLoad],
  ],
  settle: [
    `select * from pgqueue.settle($1::uuid[], array_fill($2::uuid, array[cardinality($1::uuid[])]),
       (array_fill('done'::text, array[20]) || array_fill('retry'::text, array[20]) || array_fill('dead'::text, array[20])
        || array_fill('snooze'::text, array[20]) || array_fill('cancelled'::text, array[20]))[1:cardinality($1::uuid[])],
       array_fill(10::float8, array[cardinality($1::uuid[])]), array_fill('{"message": "x"}'::text, array[cardinality($1::uuid[])]), true)`,
    ['leased', tokenOfLoad],
  ],
  'settle, all of them done': [
    `select * from pgqueue.settle($1::uuid[], array_fill($2::uuid, array[cardinality($1::uuid[])]), array_fill('done'::text, array[cardinality($1::uuid[])]),
       array_fill(null::float8, array[cardinality($1::uuid[])]), array_fill('{"rows": 1}'::text, array[cardinality($1::uuid[])]), false)`,
    ['leased', tokenOfLoad],
  ],
  'enqueue_unique of ids and keys': [
    `select * from pgqueue.enqueue_unique(jsonb_build_array(
       jsonb_build_object('task', 't', 'unique_key', 'a', 'on_conflict', 'replace'),
       jsonb_build_object('task', 't', 'unique_key', 'b', 'on_conflict', 'supersede'), jsonb_build_object('task', 't', 'id', gen_random_uuid())))`,
    [],
  ],
  amend: ['select * from pgqueue.amend($1::uuid[], 5)', ['pending']],
  erase: ['select * from pgqueue.erase($1::uuid[])', ['dead']],
  redrive: ['select * from pgqueue.redrive($1::uuid[])', ['dead']],
  unlocked_jobs: [
    'select pgqueue.unlocked_jobs($1::uuid[], array_fill($2::uuid, array[cardinality($1::uuid[])]))',
    ['leased', tokenOfLoad],
  ],
  release: [
    `select * from pgqueue.release($1::uuid[], array_fill($2::uuid, array[cardinality($1::uuid[])]))`,
    ['leased', tokenOfLoad],
  ],
};

/**
 * Full scans that are intended. All work items: the table is short, and an index can't serve them, because
 * claims are HOT updates. Items to be cancelled. Jobs that expire soonest, past those that run already.
 */
const meant = [
  /with working as materialized/,
  /with one as materialized/,
  /by queue_expiring in: /,
  /lock_timeout <= /,
  /with held as/,
  /by work_queue_cancelled in: /,
  /r\.lock_key is null and r\.pool/,
];

const held = `lock_key = 'node' and lock_token = '${tokenOfLoad}'`;

/** Queries that replace these words among a statement's values, by ids of jobs or positions of batches. */
const rowsOf: Readonly<Record<string, string>> = {
  pending: `select q.id from pgqueue.queue q
            where run_after is null and q.id not in (select w.id from pgqueue.work_item w) order by q.id limit 500`,
  dead: `select id from pgqueue.dead_letter order by id limit 100`,
  leased: `select id from pgqueue.work_queue where lock_key = 'node' and id is not null order by id limit 100`,
  ready: `select id from pgqueue.work_queue where lock_key is null and id is not null order by id limit 100`,
  'ready members': `select unnest(jobs) as id from pgqueue.work_queue where lock_key is null and jobs is not null order by id limit 15`,
  'held members': `select unnest(jobs) as id from pgqueue.work_queue where ${held} and jobs is not null order by id limit 15`,
  'held batches': `select position::text as id from pgqueue.work_queue where ${held} and cardinality(jobs) = 10 order by position limit 5`,
};

async function ids(client: pg.Client, which: string, query: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ id: string }>(query);
  // on empty tables, look for a row that does not exist
  if (rows.length === 0) return [which === 'held batches' ? '1' : randomUUID()];
  return rows.map(({ id }) => id);
}

async function problemsOf(url: string, mode: string): Promise<Record<string, readonly string[]>> {
  const { client, take } = await openExplained(url, mode);
  try {
    await client.query('begin');
    const found: Record<string, readonly string[]> = {};
    for (const [name, [text, values]] of Object.entries(statements)) {
      const given: unknown[] = [];
      for (const value of values) {
        const rows = typeof value === 'string' ? rowsOf[value] : undefined;
        given.push(rows === undefined ? value : await ids(client, String(value), rows));
      }
      take();
      await client.query(text, given);
      const plans = take();
      expect(plans.length, `plans of ${name}`).toBeGreaterThan(0);
      const problems = plans
        .flatMap(planProblems)
        .filter((problem) => !meant.some((scan) => scan.test(problem)));
      if (problems.length > 0) found[name] = problems;
    }
    await client.query('rollback');
    return found;
  } finally {
    await client.end();
  }
}

test.each(Object.keys(states))('every hot statement keeps to its index: tables %s', async (state) => {
  const database = await createTestDatabase();
  const helper = new pg.Client({ connectionString: database.url });
  await helper.connect();
  try {
    for (const table of tables)
      await helper.query(`alter table pgqueue.${table} set (autovacuum_enabled = false)`);
    await states[state]?.(helper, database.url);
    await helper.query(
      `update pgqueue.scheduler_lease set leader = 'leader', epoch = 1, expires = 'infinity'`,
    );
    await helper.query(
      `select pgqueue.register_node('node', '{"t": {"min": 1, "max": 1, "batch": true}}', 1000, p_incarnation => $1)`,
      [node],
    );
    expect(await problemsOf(database.url, 'auto')).toEqual({});
    expect(await problemsOf(database.url, 'force_generic_plan')).toEqual({});
  } finally {
    await helper.end();
    await database.drop();
  }
});

test('the check finds a plan that reads everything', async () => {
  const database = await createTestDatabase();
  const { client, take } = await openExplained(database.url, 'auto');
  await client.query(`select q.id from pgqueue.queue q where q.task = 'x'`);
  await client.query(`set enable_seqscan = off`);
  await client.query(`select q.id from pgqueue.queue q where q.task = 'x' order by q.id`);
  const problems = take().flatMap(planProblems);
  await client.query(`set jit_above_cost = 0`);
  const { rows } = await client.query<{ jit: boolean }>(`select pg_jit_available() as jit`);
  take();
  await client.query(`select count(*) from pgqueue.queue q where q.id = '${node}'`);
  const compiled = take().flatMap(planProblems);
  await client.end();
  await database.drop();
  expect(compiled).toHaveLength(rows[0]?.jit === true ? 1 : 0);
  expect(problems).toEqual([
    expect.stringMatching(/^Seq Scan on queue/),
    expect.stringMatching(/^whole Index Scan on queue/),
  ]);
});
