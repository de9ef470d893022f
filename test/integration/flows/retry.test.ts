import { randomUUID } from 'node:crypto';
import { advanceFlows, stopJobs } from '@pgqueue/postgres/internal';
import { beforeEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { emptying, flowTables } from '../../support/empty.ts';
import type { Member } from '../sql/support.ts';
import { openGround } from '../sql/support.ts';
import { openExplained } from '../plans/support.ts';

const ground = opened(openGround);
let node: Member;

beforeEach(async () => {
  await ground.reset();
  await ground.sql(emptying(flowTables));
  node = await ground.node();
});

interface Step {
  readonly kind?: 'signal';
  readonly wants?: 'any';
  readonly needs?: readonly (readonly [number, 'done' | 'ended' | 'failed'])[];
}

/** A flow whose steps have one job each, unless they are signals. */
async function start(steps: readonly Step[]): Promise<{
  /** Ends the job of a step. */
  readonly end: (step: number, outcome: 'done' | 'dead') => Promise<void>;
  readonly retry: (step?: number) => Promise<unknown>;
  /** Cancels the flow and its jobs. */
  readonly cancel: () => Promise<void>;
  readonly id: string;
  /** The states of the flow and of its steps once the leader has looked. */
  readonly states: () => Promise<string>;
  readonly signal: (step: number) => Promise<unknown>;
}> {
  const id = randomUUID();
  const jobs = steps.map(() => randomUUID());
  const rows = steps.map((step, n) => ({
    name: `step-${n}`,
    ...step,
    jobs: step.kind === undefined ? [{ id: jobs[n], task: 'hello' }] : [],
  }));
  await ground.sql('select pgqueue.start_flow($1::jsonb)', [JSON.stringify({ id, name: 'f', steps: rows })]);
  return {
    id,
    cancel: async () => {
      await ground.sql('select pgqueue.cancel_flow($1)', [id]);
      await stopJobs(ground.database, ground.leader(), 100);
    },
    end: async (step, outcome) => {
      const job = jobs[step] ?? '';
      await ground.dispatch([job]);
      const [claimed] = await ground.claim(node, 1);
      await ground.settle([{ id: job, token: claimed?.token ?? '' }], outcome);
    },
    retry: (step) =>
      ground.one('select outcome from pgqueue.retry_flow($1, $2)', [
        id,
        step === undefined ? null : `step-${step}`,
      ]),
    states: async () => {
      for (let more = true; more;) {
        ({ more } = await advanceFlows(ground.database, ground.leader(), { from: 0, max: 500, walk: null }));
      }
      return String(
        await ground.one(
          `select f.state || ': ' || string_agg(coalesce(s.outcome, s.state), ' ' order by s.step)
           from pgqueue.flow f join pgqueue.flow_step s on s.flow = f.id where f.id = $1 group by f.id`,
          [id],
        ),
      );
    },
    signal: (step) => ground.one('select pgqueue.signal_flow($1, $2)', [id, `step-${step}`]),
  };
}

test('a step that was blocked all along waits once more for one that is open again', async () => {
  const flow = await start([
    {},
    {},
    {
      needs: [
        [0, 'ended'],
        [1, 'done'],
      ],
    },
  ]);
  await flow.end(0, 'dead');
  expect(await flow.states()).toBe('open: failed open blocked');
  expect(await flow.retry()).toBe('retried');
  await flow.end(1, 'done');
  expect(await flow.states()).toBe('open: open done blocked');
  await flow.end(0, 'done');
  expect(await flow.states()).toBe('open: done done open');
});

test('a step that wants any of its needs is not skipped while one of them runs again', async () => {
  const flow = await start([
    {},
    {},
    {
      wants: 'any',
      needs: [
        [0, 'done'],
        [1, 'failed'],
      ],
    },
  ]);
  await flow.end(0, 'dead');
  expect(await flow.states()).toBe('open: failed open blocked');
  await flow.retry();
  await flow.end(1, 'done');
  expect(await flow.states()).toBe('open: open done blocked');
  await flow.end(0, 'done');
  expect(await flow.states()).toBe('open: done done open');
});

test('a signal that nobody waited for any more is waited for again', async () => {
  const flow = await start([
    {},
    { kind: 'signal' },
    {
      needs: [
        [0, 'done'],
        [1, 'done'],
      ],
    },
  ]);
  await flow.end(0, 'dead');
  expect(await flow.states()).toBe('failed: failed skipped skipped');
  await flow.retry();
  await flow.end(0, 'done');
  expect(await flow.states()).toBe('open: done open blocked');
  expect(await flow.signal(1)).toBe('signalled');
  expect(await flow.states()).toBe('open: done done open');
});

test('a retry that finds nothing does not hide an end from the leader', async () => {
  const flow = await start([{}, { needs: [[0, 'done']] }]);
  await flow.states();
  await flow.end(0, 'done');
  expect(await flow.retry()).toBe('nothing');
  expect(await flow.states()).toBe('open: done open');
});

test('a retry from one step on runs no other part of a flow that was cancelled', async () => {
  const flow = await start([{}, { needs: [[0, 'ended']] }, {}, { needs: [[2, 'done']] }]);
  await flow.cancel();
  expect(await flow.states()).toBe('cancelled: cancelled skipped cancelled skipped');
  expect(await flow.retry(1), 'what it needs is not run again').toBe('retried');
  expect(await flow.states()).toBe('open: cancelled open cancelled skipped');
  await flow.end(1, 'done');
  await flow.retry(2);
  await flow.end(2, 'done');
  expect(await flow.states()).toBe('open: cancelled done done open');
});

test('a flow of which one part was cancelled is not done when another has run', async () => {
  const flow = await start([{}, { needs: [[0, 'ended']] }, {}]);
  await flow.cancel();
  expect(await flow.states()).toBe('cancelled: cancelled skipped cancelled');
  expect(await flow.retry(2)).toBe('retried');
  await flow.end(2, 'done');
  expect(await flow.states()).toBe('failed: cancelled skipped done');
  expect(await flow.retry(1), 'what was skipped has not failed').toBe('nothing');
});

test('a retry of a chain that is skipped again reads in proportion to its length', async () => {
  const reads = async (length: number): Promise<number> => {
    const chain = Array.from({ length }, (_, n): Step => (n === 0 ? {} : { needs: [[n - 1, 'done']] }));
    const flow = await start(chain);
    await flow.cancel();
    await flow.states();
    const { sql, end } = await ground.session();
    await sql('begin');
    expect(await sql(`select outcome from pgqueue.retry_flow($1, 'step-1')`, [flow.id])).toEqual([
      { outcome: 'retried' },
    ]);
    const [row] = await sql(
      `select idx_tup_fetch as n from pg_stat_xact_user_tables where relname = 'flow_step'`,
    );
    await sql('commit');
    await end();
    return Number(row?.['n']);
  };
  const short = await reads(50);
  expect(short).toBeGreaterThan(50);
  expect(await reads(200)).toBeLessThan(8 * short);
});

test('a retry compares no job that was cancelled with all others, in tables without statistics', async () => {
  const id = randomUUID();
  const steps = [{ name: 'pages', jobs: Array.from({ length: 300 }, () => ({ task: 'hello' })) }];
  await ground.sql('select pgqueue.start_flow($1::jsonb)', [JSON.stringify({ id, name: 'f', steps })]);
  await ground.sql('select pgqueue.cancel_flow($1)', [id]);
  await stopJobs(ground.database, ground.leader(), 300);
  await advanceFlows(ground.database, ground.leader(), { from: 0, max: 500, walk: null });
  const { client, take } = await openExplained(ground.test.url, 'auto');
  await client.query(`set auto_explain.log_analyze = on`);
  take();
  await client.query('select pgqueue.retry_flow($1)', [id]);
  await client.end();
  const removed = [...JSON.stringify(take()).matchAll(/"Rows Removed by Join Filter":(\d+)/g)];
  expect(Math.max(0, ...removed.map(([, rows]) => Number(rows)))).toBeLessThan(3_000);
  expect(await ground.one('select count(*)::integer from pgqueue.queue')).toBe(300);
});

test.each([
  ['waits', []],
  ['runs', ['claimed']],
  ['was lost with its node while it was to be cancelled', ['claimed', 'reset']],
])('a job that was cancelled while it %s is back as it was', async (_when, ways: readonly string[]) => {
  const [id, job] = [randomUUID(), randomUUID()];
  const kept = { timeout_ms: 90_500, max_tries: 1, max_crashes: 2, retry: { kind: 'fixed', baseMs: 7 } };
  const steps = [{ name: 'charge', jobs: [{ id: job, task: 'hello', ...kept }] }];
  await ground.sql('select pgqueue.start_flow($1::jsonb)', [JSON.stringify({ id, name: 'f', steps })]);
  const asItWas = (): Promise<unknown> =>
    ground.one(
      `select jsonb_build_array(timeout = '90.5 s', max_tries, max_crashes, retry, tries) from pgqueue.queue where id = $1`,
      [job],
    );
  const before = await asItWas();
  expect(before).toEqual([true, 1, 2, kept.retry, 0]);
  await ground.dispatch([job]);
  const [claimed] = ways.includes('claimed') ? await ground.claim(node, 1) : [];
  await ground.sql('select pgqueue.cancel(array[$1::uuid])', [job]);
  if (ways.includes('reset')) await ground.sql('select pgqueue.reset_node($1)', [node.id]);
  else if (claimed !== undefined) await ground.settle([{ id: job, token: claimed.token }], 'cancelled');
  await advanceFlows(ground.database, ground.leader(), { from: 0, max: 500, walk: null });
  expect(await ground.one('select outcome from pgqueue.retry_flow($1)', [id])).toBe('retried');
  expect(await asItWas()).toEqual(before);
});

test('a job that expired is back as it was, without its end', async () => {
  const [id, job] = [randomUUID(), randomUUID()];
  const steps = [
    { name: 'charge', jobs: [{ id: job, task: 'hello', max_tries: 1, expires_at: '2020-01-01T00:00:00Z' }] },
  ];
  await ground.sql('select pgqueue.start_flow($1::jsonb)', [JSON.stringify({ id, name: 'f', steps })]);
  const { leader, epoch } = ground.leader();
  expect(await ground.one('select pgqueue.expire($1, $2, 10)', [leader, epoch])).toBe(1);
  await advanceFlows(ground.database, ground.leader(), { from: 0, max: 500, walk: null });
  expect(await ground.one('select outcome from pgqueue.retry_flow($1)', [id])).toBe('retried');
  expect(await ground.sql('select max_tries, expires_at from pgqueue.queue where id = $1', [job])).toEqual([
    { max_tries: 1, expires_at: null },
  ]);
});

test('a dead job that is put back after its flow is gone leaves nothing behind', async () => {
  const flow = await start([{}]);
  await flow.end(0, 'dead');
  expect(await flow.states()).toBe('failed: failed');
  await ground.sql("select pgqueue.trim_flows('0 s')");
  await ground.sql('select pgqueue.redrive(array(select id from pgqueue.dead_letter))');
  await flow.end(0, 'dead');
  expect(await ground.sql('select outcome from pgqueue.flow_result')).toEqual([{ outcome: 'dead' }]);
  await advanceFlows(ground.database, ground.leader(), { from: 0, max: 500, walk: null });
  expect(await ground.sql('select flow from pgqueue.flow_result')).toEqual([]);
  expect(await ground.sql('select flow from pgqueue.flow_tally')).toEqual([]);
});

test('a cancelled job that begins anew leaves none of the jobs that it had waited for', async () => {
  const waiting = await start([{}]);
  const job = String(await ground.one('select id from pgqueue.queue where flow = $1', [waiting.id]));
  await ground.dispatch([job]);
  const [claimed] = await ground.claim(node, 1);
  const children = randomUUID();
  const steps = [{ name: 'children', jobs: [{ id: randomUUID(), task: 'hello' }] }];
  const own = JSON.stringify({ id: children, name: 'hello: children', steps });
  expect(await ground.one('select pgqueue.suspend_job($1, $2, null, $3)', [job, claimed?.token, own])).toBe(
    'suspended',
  );
  await waiting.cancel();
  expect(await waiting.states()).toBe('cancelled: cancelled');
  // before the leader's walk has found that nobody waits for the children any more
  expect(await waiting.retry()).toBe('retried');
  await stopJobs(ground.database, ground.leader(), 100);
  expect(await waiting.states()).toBe('open: open');
  expect(await ground.one('select state from pgqueue.flow where id = $1', [children])).toBe('cancelled');
  expect(await ground.sql('select id from pgqueue.queue')).toEqual([{ id: job }]);
});
