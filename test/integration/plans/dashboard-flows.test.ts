import { openDatabase, operatorOf } from '@pgqueue/postgres/internal';
import {
  asRole,
  countFailedFlows,
  countFound,
  findFlows,
  findJobs,
  listStepEnds,
  readFlowNames,
} from '@pgqueue/postgres/internal/dashboard';
import type { Database } from '@pgqueue/postgres';
import pg from 'pg';
import { expect, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { readTables, states } from './flow-states.ts';
import { openExplainedPool, planProblems } from './support.ts';

const page = { limit: 50, walkMax: 5_000 };

/** Reads of the pages of flows, each with the flow that they are about. */
const reads: Readonly<Record<string, (database: Database, flow: string) => Promise<unknown>>> = {
  list: (database) => findFlows(database, page),
  'list of open ones': (database) => findFlows(database, { ...page, state: 'open', name: 'f' }),
  'list of failed ones': (database) => findFlows(database, { ...page, state: 'failed' }),
  'list of done ones': (database, flow) => findFlows(database, { ...page, state: 'done', after: flow }),
  'list by name': (database, flow) => findFlows(database, { ...page, name: 'f', after: flow }),
  'list by key': (database) => findFlows(database, { ...page, key: 'k' }),
  'number of failed ones': (database) => countFailedFlows(database, 10_001),
  'a flow': (database, flow) => operatorOf(database).flows.show(flow),
  'its name': readFlowNames,
  results: (database, flow) => operatorOf(database).flows.results(flow, 's0'),
  'ends without results': (database, flow) => listStepEnds(database, { flow, step: 's0', limit: 50 }),
  'jobs of a step': (database, flow) => findJobs(database, { ...page, flow: { id: flow, step: 's0' } }),
  'jobs of a flow by state': (database, flow) =>
    findJobs(database, { ...page, flow: { id: flow }, status: 'pending', after: flow }),
  'number of them': (database, flow) =>
    countFound(database, { flow: { id: flow, step: 's0' }, max: 10_000, walkMax: 5_000 }),
};

/** It joins the steps and the needs of one flow, each by an index on the flow. */
const meant = /^Merge Join on a join by none in: select case when row_number/;

test.each(Object.keys(states).filter((state) => state !== 'empty'))(
  'pages of flows keep to their indexes: tables %s',
  async (state) => {
    const test = await createTestDatabase();
    const helper = new pg.Client({ connectionString: test.url });
    await helper.connect();
    for (const table of readTables)
      await helper.query(`alter table pgqueue.${table} set (autovacuum_enabled = false)`);
    await states[state]?.(helper);
    const { rows } = await helper.query<{ id: string }>(
      'select id from pgqueue.flow order by id offset 7 limit 1',
    );
    await helper.end();
    const { pool, take } = openExplainedPool(test.url);
    const own = openDatabase({ pool });
    const database = asRole(own, { role: null, statementTimeoutMs: 60_000 });
    const found: Record<string, readonly string[]> = {};
    for (const [name, read] of Object.entries(reads)) {
      take();
      await read(database, rows[0]?.id ?? '');
      const plans = take();
      expect(plans.length, `plans of ${name}`).toBeGreaterThan(0);
      const problems = plans.flatMap(planProblems).filter((problem) => !meant.test(problem));
      if (problems.length > 0) found[name] = problems;
    }
    await own.close();
    await pool.end();
    await test.drop();
    expect(found).toEqual({});
  },
);
