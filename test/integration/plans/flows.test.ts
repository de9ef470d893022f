import pg from 'pg';
import { expect, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { openExplained, planProblems } from './support.ts';

const tables = ['flow', 'flow_step', 'flow_need', 'flow_job', 'flow_tally', 'flow_result', 'queue'] as const;

async function vacuum(client: pg.Client): Promise<void> {
  for (const table of tables) await client.query(`vacuum analyze pgqueue.${table}`);
}

/**
 * Inserts open flows of ten steps, each of which waits for the one before: the first has a job in QUEUE, the
 * others keep theirs. A fifth of the flows has a tally, a fifth is to be stopped, and each has a result.
 */
async function load(client: pg.Client, flows: number): Promise<void> {
  const run = (sql: string): Promise<unknown> => client.query(sql, [flows]);
  await client.query(`create temp table made (id uuid, n integer); `);
  await run(`insert into made select pgqueue.uuid_v7(), n from generate_series(1, $1::integer) n`);
  await client.query(`
    insert into pgqueue.flow (id, name, unique_key, deadline)
      select id, 'f', 'u' || id, clock_timestamp() + (n - 50) * interval '1 second' from made;
    insert into pgqueue.flow_step (flow, step, name, kind, state, open_needs, added, delay, due, stop)
      select id, s, 's' || s, case when s = 5 then 'timer' else 'jobs' end, case when s = 0 then 'open' else 'blocked' end, (s > 0)::integer,
             case when s = 5 then 0 else 1 end, case when s = 5 then interval '1 day' end, null, s = 0 and n % 5 = 0
      from made, generate_series(0, 9) s;
    insert into pgqueue.flow_need (flow, needed, step, condition) select id, s - 1, s, 'done' from made, generate_series(1, 9) s;
    insert into pgqueue.flow_job (flow, step, n, jobs) select id, s, 0, '[{"task": "t"}]' from made, generate_series(1, 9) s where s <> 5;
    insert into pgqueue.flow_result (flow, step, job, outcome, result) select id, 0, pgqueue.uuid_v7(), 'done', '{}' from made;
    insert into pgqueue.flow_tally (flow, step, done) select id, 0, 1 from made where n % 5 = 1;
    insert into pgqueue.queue (task, queue, key, flow, step) select 't', 'q', 'k' || n % 100, id, 0 from made where n % 5 <> 1;
    drop table made`);
}

const states: Readonly<Record<string, (client: pg.Client) => Promise<void>>> = {
  empty: vacuum,
  stale: async (client) => {
    await load(client, 20);
    await vacuum(client);
    await load(client, 20_000);
  },
  'stale, seen empty': async (client) => {
    await vacuum(client);
    await load(client, 20_000);
  },
  'stale, seen ended': async (client) => {
    await load(client, 2_000);
    await client.query(`
      update pgqueue.flow_step set state = 'ended', outcome = 'done', ended = clock_timestamp(), stop = false;
      update pgqueue.flow set state = 'done', ended = clock_timestamp();
      delete from pgqueue.flow_job; delete from pgqueue.flow_tally; delete from pgqueue.flow_result; delete from pgqueue.queue`);
    await vacuum(client);
    await load(client, 20_000);
  },
  large: async (client) => {
    await load(client, 20_000);
    await vacuum(client);
  },
};

const aFlow = `(select coalesce((select id from pgqueue.flow where state = 'open' order by id offset 7 limit 1), gen_random_uuid()))`;
const someJob = `(select coalesce((select id from pgqueue.queue where flow is not null order by id limit 1), gen_random_uuid()))`;

/** The statements, each run once on the state that the earlier ones left. */
const statements: Readonly<Record<string, string>> = {
  advance_flows: `select pgqueue.advance_flows('leader', 1, '{"from": 0, "max": 50, "walk": null}')`,
  'advance_flows, walking': `select pgqueue.advance_flows('leader', 1, '{"from": 10, "max": 50, "walk": "00000000-0000-0000-0000-000000000000"}')`,
  stop_jobs: `select pgqueue.stop_jobs('leader', 1, 50)`,
  note_ends: `select pgqueue.note_ends(array[row(${aFlow}, 0, gen_random_uuid(), 'done', '{}')::pgqueue.flow_end])`,
  start_flow: `select pgqueue.start_flow('{"name": "f", "unique_key": "k", "steps": [{"name": "a", "jobs": [{"task": "t"}]}, {"name": "b", "needs": [[0]], "jobs": [{"task": "t"}]}]}')`,
  signal_flow: `select pgqueue.signal_flow(${aFlow}, 's1')`,
  add_jobs: `select pgqueue.add_jobs(${someJob}, gen_random_uuid(), '[{"task": "t"}]')`,
  suspend_job: `select pgqueue.suspend_job(${someJob}, gen_random_uuid(), '{}', '{"id": "00000000-0000-7000-8000-000000000001"}')`,
  signal_job: `select pgqueue.signal_job(${someJob}, 'go')`,
  wake_waiters: `select pgqueue.wake_waiters(array[${aFlow}])`,
  own_results: `select * from pgqueue.own_results(${someJob}, gen_random_uuid(), ${aFlow}, 0)`,
  needs_of: `select * from pgqueue.needs_of(${someJob}, gen_random_uuid())`,
  need_results: `select * from pgqueue.need_results(${someJob}, gen_random_uuid(), 0)`,
  flow_results: `select * from pgqueue.flow_results(${aFlow}, 0)`,
  flow_state: `select * from pgqueue.flow_state(array[${aFlow}])`,
  cancel_flow: `select pgqueue.cancel_flow(${aFlow})`,
  'advance_flows, stopping': `select pgqueue.advance_flows('leader', 1, '{"from": 0, "max": 50, "walk": null}')`,
  retry_flow: `select * from pgqueue.retry_flow((select id from pgqueue.flow where state = 'cancelled' limit 1))`,
  trim_flows: `select pgqueue.trim_flows('-1 day', 50)`,
  tick_due: 'select pgqueue.tick_due()',
};

/** Scans of a whole index that are meant: it holds what is to be done now, and nothing else. */
const meant = [/by (?:flow_step_stopping|flow_open|queue_expiring) in: /];

async function problemsOf(url: string, mode: string): Promise<Record<string, readonly string[]>> {
  const { client, take } = await openExplained(url, mode);
  const found: Record<string, readonly string[]> = {};
  try {
    await client.query('begin');
    for (const [name, text] of Object.entries(statements)) {
      take();
      await client.query(text);
      const plans = take();
      expect(plans.length, `plans of ${name}`).toBeGreaterThan(0);
      const problems = plans
        .flatMap(planProblems)
        .filter(
          (problem) => !meant.some((scan) => scan.test(problem)) && !problem.includes(text.slice(0, 60)),
        );
      if (problems.length > 0) found[name] = problems;
    }
    await client.query('rollback');
  } finally {
    await client.end();
  }
  return found;
}

test.each(Object.keys(states))('statements of flows keep to their indexes: tables %s', async (state) => {
  const database = await createTestDatabase();
  const helper = new pg.Client({ connectionString: database.url });
  await helper.connect();
  try {
    for (const table of tables)
      await helper.query(`alter table pgqueue.${table} set (autovacuum_enabled = false)`);
    await states[state]?.(helper);
    await helper.query(
      `update pgqueue.scheduler_lease set leader = 'leader', epoch = 1, expires = 'infinity'`,
    );
    expect(await problemsOf(database.url, 'auto')).toEqual({});
    expect(await problemsOf(database.url, 'force_generic_plan')).toEqual({});
  } finally {
    await helper.end();
    await database.drop();
  }
});
