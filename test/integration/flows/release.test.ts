import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { beforeEach, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { emptying, flowTables } from '../../support/empty.ts';
import { flowsOf } from '../../support/flows/flow-seed.ts';

const own = useDatabase();
const { sql, reset } = own;
const { start, advance, jobsOf, end } = flowsOf(own);

beforeEach(async () => {
  await reset();
  await sql(emptying(flowTables));
});

/** Starts a flow of one job, and then so many that wait for it; resolves to the flow and its job. */
async function startTwo(jobs: number): Promise<{ readonly flow: string; readonly first: string }> {
  const flow = await start({
    steps: [
      { name: 'first', jobs: 1 },
      { name: 'then', needs: [[0]], jobs },
    ],
  });
  const [first = ''] = await jobsOf(flow, 0);
  return { flow, first };
}

const waiting = (): Promise<unknown> =>
  sql(
    'select flow, count(*)::integer as jobs from pgqueue.queue where step = 1 group by flow order by min(seq)',
  );

test('steps of many flows that end at once are released without a look at all open flows', async () => {
  const flows = await Promise.all(Array.from({ length: 50 }, () => startTwo(1)));
  await advance();
  await end(flows.map(({ first }) => first));
  expect(await waiting()).toHaveLength(50);
});

test('one call enqueues some 10,000 jobs, and the next ones the others', async () => {
  const flows = [await startTwo(6_700), await startTwo(6_800), await startTwo(1)];
  await advance();
  const [{ epoch }] = await sql(`select epoch from pgqueue.lead('s', 60000)`);
  await sql('delete from pgqueue.queue');
  await sql(
    'insert into pgqueue.flow_tally (flow, step, done) select id, 0, 1 from pgqueue.flow order by id',
  );
  const call = `select pgqueue.advance_flows('s', $1, '{"from": 0, "max": 500, "walk": null}') as moved`;
  const [{ moved }] = await sql(call, [epoch]);
  expect(moved).toMatchObject({ put: 10_200, more: true });
  const [{ moved: then }] = await sql(call, [epoch]);
  expect(then).toMatchObject({ put: 3_301, more: false });
  expect(await waiting()).toEqual([
    { flow: flows[0]?.flow, jobs: 6_700 },
    { flow: flows[1]?.flow, jobs: 6_800 },
    { flow: flows[2]?.flow, jobs: 1 },
  ]);
});

test('a step without jobs ends with the last step that it waits for, and keeps no chunk of none', async () => {
  const { flow, first } = await startTwo(0);
  expect(await sql('select from pgqueue.flow_step where jobs is not null')).toEqual([]);
  await advance();
  await end([first]);
  expect(await sql('select state, outcome from pgqueue.flow_step where flow = $1', [flow])).toEqual([
    { state: 'ended', outcome: 'done' },
    { state: 'ended', outcome: 'done' },
  ]);
});

test('a release waits for no open transaction that has enqueued the id of one of its jobs, and is done after it', async () => {
  const id = randomUUID();
  const startWith = (jobs: readonly { readonly task: string; readonly id?: string }[]): Promise<string> =>
    start({
      steps: [
        { name: 'first', jobs: 0 },
        { name: 'then', needs: [[0]], jobs },
      ],
    });
  const [held, free] = [await startWith([{ task: 'hello', id }]), await startWith([{ task: 'hello' }])];
  const application = new pg.Client(own.url);
  await application.connect();
  try {
    await application.query('begin');
    await application.query(`insert into pgqueue.queue (id, task) values ($1, 'hello')`, [id]);
    await advance();
    expect(await waiting()).toEqual([{ flow: free, jobs: 1 }]);
    await application.query('rollback');
  } finally {
    await application.end();
  }
  await advance();
  expect(await waiting()).toEqual([
    { flow: free, jobs: 1 },
    { flow: held, jobs: 1 },
  ]);
});

test('a payload of null stays null, also in a step that opens later, and none is {}', async () => {
  const jobs = [{ task: 'hello', payload: null }, { task: 'hello' }, { task: 'hello', payload: 1 }];
  const flow = await start({
    steps: [
      { name: 'first', jobs },
      { name: 'then', needs: [[0]], jobs },
    ],
  });
  const payloads = (step: number): Promise<unknown> =>
    sql('select payload::text from pgqueue.queue where step = $1 order by seq', [step]);
  const given = [{ payload: 'null' }, { payload: '{}' }, { payload: '1' }];
  expect(await payloads(0)).toEqual(given);
  await advance();
  await end(await jobsOf(flow, 0));
  expect(await payloads(1)).toEqual(given);
});

test("times of a later step's jobs are read with the settings of the session that starts the flow", async () => {
  const job = { task: 'hello', run_after: '01/02/2040 10:00', expires_at: '03/04/2041 10:00' };
  const steps = [
    { name: 'first', jobs: [{ task: 'hello' }] },
    { name: 'then', needs: [[0, 'done']], jobs: [job] },
  ];
  const flow = await own.database.transaction(async (client) => {
    await client.query(`set local datestyle to 'SQL, DMY'`);
    await client.query(`set local timezone to 'Asia/Tokyo'`);
    const { rows } = await client.query<{ readonly id: string }>(
      'select flow_id as id from pgqueue.start_flow($1::jsonb)',
      [JSON.stringify({ name: 'dates', steps })],
    );
    return rows[0]?.id ?? '';
  });
  await end(await jobsOf(flow, 0));
  expect(await sql('select run_after, expires_at from pgqueue.queue where step = 1')).toEqual([
    { run_after: new Date('2040-02-01T01:00:00Z'), expires_at: new Date('2041-04-03T01:00:00Z') },
  ]);
});
