import { createOperator } from '@pgqueue/postgres';
import { reasonText } from '@pgqueue/postgres/internal';
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const bench = useDatabase();
const { operator, reset, sql } = bench;

beforeEach(reset);

async function enqueue(values = `('hello')`, columns = 'task'): Promise<string> {
  const [{ id }] = await sql(`insert into pgqueue.queue (${columns}) values ${values} returning id`);
  return id;
}

async function node(slots = 1): Promise<string> {
  const [{ incarnation }] = await sql(
    `select * from pgqueue.register_node('n', '{"hello": {"min": 1, "max": 1, "timeoutMs": 60000}}', $1)`,
    [slots],
  );
  return incarnation;
}

async function schedule(ids: readonly string[]): Promise<void> {
  await sql(`select * from pgqueue.lead('s', 60000)`);
  await sql(`select pgqueue.dispatch('s', 1, $1::uuid[], null, '{"pool": "default"}', false)`, [ids]);
}

describe('status', () => {
  test('of nothing at all: no leader', async () => {
    expect(await operator.status()).toMatchObject({
      schema: 'pgqueue',
      schemaVersion: expect.any(Number),
      leader: { leader: null, expiresInMs: null },
      queues: [],
      totals: { pending: 0, donePerSecond: 0 },
      nodes: { alive: 0, slots: 0 },
      scheduler: null,
      warnings: [{ kind: 'no_leader' }],
    });
  });

  test('depth, ages, leader and nodes', async () => {
    const incarnation = await node(2);
    const ids = [await enqueue(), await enqueue(), await enqueue()];
    await schedule(ids.slice(0, 2));
    const [{ token }] = await sql('select * from pgqueue.claim($1, $2, 2)', ['n', incarnation]);
    await sql('select pgqueue.ack($1, $2)', [ids[0], token]);
    await enqueue(`('hello', now() + interval '1 hour')`, 'task, run_after');
    const status = await operator.status();
    expect(status).toMatchObject({
      leader: { leader: 's', epoch: 1 },
      queues: [
        { queue: 'default', delayed: 1, pending: 1, ready: 0, running: 1, dead: 0, done5m: 1, retryRate: 0 },
      ],
      totals: { delayed: 1, pending: 1, running: 1, donePerSecond: 1 / 300 },
      nodes: { alive: 1, draining: 0, overdue: 0, slots: 2, leases: 1 },
      warnings: [],
    });
    expect(status.leader.expiresInMs).toBeGreaterThan(0);
    expect(status.queues[0]?.oldestMs).toBeGreaterThan(0);
    expect(status.queues[0]?.claimAgeMs).toBeGreaterThan(0);
  });

  test('slots in use: not what is claimed ahead, a bundle as one, and of alive nodes only', async () => {
    await sql(
      `select pgqueue.register_node(v.id, '{}', v.slots) from (values ('full', 2), ('bundle', 4), ('drains', 3)) v (id, slots)`,
    );
    await sql(`update pgqueue.node set state = 'draining' where id = 'drains'`);
    await sql(
      `insert into pgqueue.work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started, together)
       select gen_random_uuid(), 1, 'default', 'hello', v.id, gen_random_uuid(), now() + interval '1 hour', now(), v.together
       from (values ('full', 5, null), ('bundle', 3, 7), ('bundle', 1, null), ('drains', 3, null)) v (id, leases, together),
            generate_series(1, v.leases)`,
    );
    const { nodes } = await operator.status();
    expect(nodes).toMatchObject({ alive: 2, slots: 6, slotsInUse: 4, leases: 12 });
    const used = (await operator.nodes.list()).map(({ id, slotsInUse }) => [id, slotsInUse]);
    expect(Object.fromEntries(used)).toEqual({ full: 2, bundle: 2, drains: 3 });
  });

  test('warns of jobs that no node can take', async () => {
    await node();
    await sql(`select * from pgqueue.lead('s', 60000)`);
    await enqueue(`('hello', 1), ('hello', 2), ('other', 1), ('other', 1)`, 'task, payload_version');
    const { warnings } = await operator.status();
    expect(warnings).toMatchObject([
      { kind: 'no_capable_node', unserved: { task: 'other', jobs: 2, pool: 'default', payloadVersion: 1 } },
      { kind: 'no_capable_node', unserved: { task: 'hello', jobs: 1, payloadVersion: 2 } },
    ]);
    await operator.queues.pause('default');
    expect((await operator.status()).warnings).toEqual([]);
  });

  test('looks for the jobs that no node can take at the nodes once, however many kinds of jobs wait', async () => {
    const pool = new pg.Pool({ connectionString: bench.url, max: 1 });
    const alone = createOperator({ pool });
    const scans = async (): Promise<number> => {
      const { rows } = await pool.query<{ scans: number }>(
        `select coalesce(seq_scan, 0)::integer + coalesce(idx_scan, 0)::integer as scans
         from pg_stat_user_tables where schemaname = 'pgqueue' and relname = 'node'`,
      );
      return rows[0]?.scans ?? 0;
    };
    const scansOfStatus = async (): Promise<number> => {
      const before = await scans();
      await alone.status();
      await pool.query('select pg_stat_force_next_flush()');
      return (await scans()) - before;
    };
    await node();
    await enqueue(`('hello')`, 'task');
    const ofOne = await scansOfStatus();
    await enqueue(Array.from({ length: 40 }, (_, n) => `('other-${n}')`).join(', '), 'task');
    expect(await scansOfStatus()).toBe(ofOne);
    await alone.close();
    await pool.end();
  });

  test("the leader's report: held jobs by queue and reason, ticks, and faults of the policy as warnings", async () => {
    await enqueue(`('hello', 'mail'), ('hello', 'other')`, 'task, queue');
    await node();
    await sql(`select * from pgqueue.lead('s', 60000)`);
    const atMs = Date.now() - 60_000;
    const fault = {
      policy: 'fair',
      part: 'tenants',
      message: 'no region',
      count: 12,
      firstMs: atMs,
      atMs,
      suspendedUntilMs: null,
    };
    const written = await sql(`select pgqueue.report('s', 1, $1)`, [
      JSON.stringify({
        policy: 'fair',
        held: { mail: { no_free_slot: 3, key_concurrency: 120 } },
        ticks: { count: 9, p50Ms: 1.5, p99Ms: 9.25, lastBatch: 4, dispatched: 20 },
        lanes: 7,
        inFlight: 5,
        faults: [fault, { ...fault, part: 'plan', count: 1, suspendedUntilMs: Date.now() + 30_000 }],
        forecast: { deadline_missed: 2 },
        shadow: null,
      }),
    ]);
    expect(written).toHaveLength(1);
    const { scheduler, queues, warnings } = await operator.status();
    expect(scheduler).toMatchObject({ leader: 's', epoch: 1, stale: false, policy: 'fair', lanes: 7 });
    expect(scheduler?.ageMs).toBeLessThan(60_000);
    expect(queues.map(({ queue, held }) => [queue, held && Object.entries(held)])).toEqual([
      [
        'mail',
        [
          ['key_concurrency', 120],
          ['no_free_slot', 3],
        ],
      ],
      ['other', []],
    ]);
    expect(warnings).toMatchObject([
      { kind: 'policy_fault', fault: { policy: 'fair', part: 'tenants', count: 12 } },
      { kind: 'policy_fault', fault: { part: 'plan', count: 1 } },
    ]);
    expect(warnings[0]?.message).toBe('policy fair: tenants failed 12 times, first 60 s ago: no region');
    expect(warnings[1]?.message).toMatch(
      /^policy fair: plan failed once, first 60 s ago, and is left out for another (?:30|29) s: no region$/,
    );
    expect(await sql('select queue, reason, jobs from pgqueue.queue_held order by jobs')).toEqual([
      { queue: 'mail', reason: 'no_free_slot', jobs: '3' },
      { queue: 'mail', reason: 'key_concurrency', jobs: '120' },
    ]);

    await sql(`update pgqueue.scheduler_report set written = now() - interval '2 minutes'`);
    const silent = await operator.status();
    expect(silent.scheduler).toMatchObject({ stale: true });
    expect(silent.queues[0]?.held).toBeNull();
    expect(silent.warnings).toMatchObject([
      { kind: 'silent_leader', message: expect.stringContaining('120 s') },
    ]);
    await sql(`update pgqueue.scheduler_lease set expires = now()`);
    await sql(`select * from pgqueue.lead('s2', 60000)`);
    const replaced = await operator.status();
    expect([replaced.scheduler?.stale, replaced.warnings]).toEqual([true, []]);
  });
});

describe('explain', () => {
  // nobody answers for the leader here: explain-leader.test.ts is about that
  const unasked = { waitMs: 0 };
  const kinds = async (id: string): Promise<readonly string[]> =>
    (await operator.explain(id, unasked)).reasons.map(({ kind }) => kind);

  test('says what a job waits for, step by step, until it runs and ends', async () => {
    const first = await enqueue();
    const id = await enqueue();
    await operator.queues.pause('default');
    expect(await kinds(id)).toEqual(['paused_queue', 'no_leader', 'no_capable_node', 'in_line']);
    expect((await operator.explain(id, unasked)).ahead).toBe(1);
    await operator.queues.resume('default');
    await sql(`select * from pgqueue.lead('s', 60000)`);
    expect(await kinds(id)).toEqual(['policy_unknown', 'no_capable_node', 'in_line']);
    const incarnation = await node();
    expect(await kinds(id)).toEqual(['policy_unknown', 'in_line']);
    await schedule([first, id]);
    expect(await kinds(id)).toEqual(['ready']);
    await sql('select * from pgqueue.claim($1, $2, 1)', ['n', incarnation]);
    expect((await operator.explain(id)).reasons).toMatchObject([
      { kind: 'no_free_slot', slots: 1, running: 1, ready: 1 },
      { kind: 'ready', itemsAhead: 0 },
    ]);
    expect((await operator.explain(first)).reasons).toMatchObject([
      { kind: 'running', node: 'n', sinceMs: expect.any(Number) },
    ]);
    await operator.jobs.cancel([first]);
    await sql(`update pgqueue.node set heartbeat = now() - interval '1 minute'`);
    expect(await kinds(first)).toEqual(['running', 'node_silent', 'cancel_asked']);
    const [{ lock_token: token }] = await sql('select lock_token from pgqueue.work_queue where id = $1', [
      first,
    ]);
    await sql('select pgqueue.ack($1, $2)', [first, token]);
    expect(await kinds(first)).toEqual(['ended']);
  });

  test('places a job within its key, by priority and then age', async () => {
    const ahead = async (id: string): Promise<number | null> => (await operator.explain(id, unasked)).ahead;
    const low = await enqueue(`('hello', 'k', 5)`, 'task, key, priority');
    const late = await enqueue(`('hello', 'k', 1)`, 'task, key, priority');
    await enqueue(`('hello', 'another', -9)`, 'task, key, priority');
    expect([await ahead(low), await ahead(late)]).toEqual([1, 0]);
  });

  test('limits that are reached, and rates that may hold it, are told without a leader', async () => {
    const jobs = `('hello', 'mail', 'acme'), ('hello', 'mail', 'acme'), ('hello', 'mail', 'acme'), ('hello', 'mail', 'globex')`;
    await enqueue(jobs, 'task, queue, key');
    const ids = (await sql('select id, key from pgqueue.queue order by seq')).map((row) => row.id);
    await operator.queues.set('mail', {
      concurrency: 3,
      keyConcurrency: 2,
      rate: { perSecond: 100, burst: 10 },
      keyRate: { perSecond: 5 / 60 },
    });
    await node(9);
    await schedule(ids.slice(0, 2));
    await sql(
      `update pgqueue.work_queue set together = 1, lock_key = '9', lock_token = id, lock_timeout = now() + interval '1 hour', started = now()`,
    );
    const limits = async (id: string): Promise<readonly string[]> =>
      (await operator.explain(id, unasked)).reasons
        .filter(({ kind }) => kind === 'limit' || kind === 'rate')
        .map((reason) => reasonText(reason, String));
    const rates = [
      'rate of queue mail is 100/s burst 10: only the leader knows whether it holds the job',
      'key_rate of queue mail is 5/m burst 1: only the leader knows whether it holds the job',
    ];
    // two jobs that one handler call takes together count once
    expect(await limits(ids[2])).toEqual(rates);
    await sql(`update pgqueue.work_queue set together = null`);
    expect(await limits(ids[2])).toEqual([
      'key_concurrency of queue mail: 2 of 2 in flight for key "acme"',
      ...rates,
    ]);
    await operator.queues.set('mail', { concurrency: 2, rate: null, keyRate: null });
    expect(await limits(ids[3])).toEqual(['concurrency of queue mail: 2 of 2 in flight']);
    await operator.queues.set('mail', { concurrency: null, keyConcurrency: null });
    expect(await limits(ids[2])).toEqual([]);
  });

  test('a leader that does not answer is not waited for without end', async () => {
    const id = await enqueue();
    await sql(`select * from pgqueue.lead('s', 60000)`);
    const { reasons, policy, start } = await operator.explain(id, { waitMs: 150 });
    expect(reasons[0]).toEqual({ kind: 'policy_unknown' });
    expect([policy, start]).toEqual([null, null]);
  });

  test('a delayed job, a dead one, and none', async () => {
    const delayed = await enqueue(`('hello', now() + interval '1 hour')`, 'task, run_after');
    const { reasons, ahead } = await operator.explain(delayed);
    expect(reasons[0]).toMatchObject({ kind: 'delayed', tries: 0, until: expect.any(Date) });
    expect(ahead).toBeNull();
    const dead = await enqueue();
    const incarnation = await node();
    await schedule([dead]);
    const [{ token }] = await sql('select * from pgqueue.claim($1, $2, 1)', ['n', incarnation]);
    await sql(
      `select * from pgqueue.settle(array[$1::uuid], array[$2::uuid], array['dead'], array[0::float8], array['{"message": "no"}'])`,
      [dead, token],
    );
    expect((await operator.explain(dead)).reasons).toEqual([
      { kind: 'dead', reason: 'gave_up', error: 'no' },
    ]);
    await expect(operator.explain('00000000-0000-7000-8000-000000000000')).rejects.toMatchObject({
      code: 'not_found',
    });
  });
});
