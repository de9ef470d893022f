import { beforeEach, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { emptying, flowTables } from '../../support/empty.ts';
import { flowsOf } from '../../support/flows/flow-seed.ts';

const own = useDatabase();
const { sql, reset } = own;
const { start, advance } = flowsOf(own);

beforeEach(async () => {
  await reset();
  await sql(emptying(flowTables));
});

test('a flow that can not be processed fails alone, and wakes the job that waits for it', async () => {
  const waiter = '0198a3c2-0000-7000-8000-000000000001';
  const token = '0198a3c2-0000-4000-8000-000000000002';
  await sql(
    `insert into pgqueue.queue (id, task, run_after, last_token) values ($1, 't', clock_timestamp() + interval '9 years', $2)`,
    [waiter, token],
  );
  const sick = await start({
    steps: [
      { name: 'a', jobs: 0 },
      { name: 'b', needs: [[0]], jobs: 1 },
    ],
  });
  const well = await start({
    steps: [
      { name: 'a', jobs: 0 },
      { name: 'b', needs: [[0]], jobs: 1 },
    ],
  });
  await sql('update pgqueue.flow set waiter = $2, waiter_token = $3 where id = $1', [sick, waiter, token]);
  // as no release of this version would store it
  await sql(
    `update pgqueue.flow_step set jobs[1] = '[{"task": "t", "max_tries": 0}]' where flow = $1 and jobs is not null`,
    [sick],
  );
  await advance();
  expect(await sql('select id, state from pgqueue.flow order by state', [])).toEqual([
    { id: sick, state: 'failed' },
    { id: well, state: 'open' },
  ]);
  expect(await sql('select run_after from pgqueue.queue where id = $1', [waiter])).toEqual([
    { run_after: null },
  ]);
  expect(await sql('select waiter_token from pgqueue.flow where id = $1', [sick])).toEqual([
    { waiter_token: null },
  ]);
});

test('a tally of any number stops no flow', async () => {
  const flow = await start({
    steps: [
      { name: 'a', jobs: 0 },
      { name: 'b', needs: [[0]], jobs: 1 },
    ],
  });
  await sql('insert into pgqueue.flow_tally (n, flow) overriding system value values ($1, $2)', [
    '9223372036854775807',
    flow,
  ]);
  await advance();
  expect(await sql('select count(*)::integer as jobs from pgqueue.queue where flow = $1', [flow])).toEqual([
    { jobs: 1 },
  ]);
  expect(await sql('select n from pgqueue.flow_tally', [])).toEqual([]);
});
