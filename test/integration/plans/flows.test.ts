import pg from 'pg';
import { expect, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { readTables, states } from './flow-states.ts';
import { openExplained, planProblems } from './support.ts';

const aFlow = `(select coalesce((select id from pgqueue.flow where state = 'open' order by id offset 7 limit 1), gen_random_uuid()))`;
const someJob = `(select coalesce((select id from pgqueue.queue where flow is not null order by id limit 1), gen_random_uuid()))`;

/** The statements, each run once on the state that the earlier ones left. */
const statements: Readonly<Record<string, string>> = {
  advance_flows: `select pgqueue.advance_flows('leader', 1, '{"from": 0, "max": 50, "walk": null}')`,
  'advance_flows, walking': `select pgqueue.advance_flows('leader', 1, '{"from": 10, "max": 50, "walk": "00000000-0000-0000-0000-000000000000"}')`,
  stop_jobs: `select pgqueue.stop_jobs('leader', 1, 50)`,
  note_ends: `select pgqueue.note_ends(array[row(${aFlow}, 0, gen_random_uuid(), 'done', '{}', 'a')::pgqueue.flow_end])`,
  start_flow: `select pgqueue.start_flow('{"name": "f", "unique_key": "k", "steps": [{"name": "a", "jobs": [{"task": "t"}]}, {"name": "b", "needs": [[0]], "jobs": [{"task": "t"}]}]}')`,
  signal_flow: `select pgqueue.signal_flow(${aFlow}, 's1')`,
  add_jobs: `select pgqueue.add_jobs(${someJob}, gen_random_uuid(), '[{"task": "t"}]')`,
  suspend_job: `select pgqueue.suspend_job(${someJob}, gen_random_uuid(), '{}', '{"id": "00000000-0000-7000-8000-000000000001"}')`,
  signal_job: `select pgqueue.signal_job(${someJob}, 'go')`,
  wake_waiters: `select pgqueue.wake_waiters(array[${aFlow}])`,
  own_results: `select * from pgqueue.own_results(${someJob}, gen_random_uuid(), ${aFlow}, 0)`,
  needs_of: `select * from pgqueue.needs_of(${someJob}, gen_random_uuid())`,
  need_results: `select * from pgqueue.need_results(${someJob}, gen_random_uuid(), 0)`,
  step_results: `select * from pgqueue.step_results(${aFlow}, 's1')`,
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
    for (const table of readTables)
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
