import { createOperator, openDatabase } from '@pgqueue/postgres';
import type { Database, Operator } from '@pgqueue/postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { seedOf } from '../support/seed.ts';

let own: TestDatabase;
let database: Database;
let operator: Operator;
const { reset, sql } = seedOf(() => database);

beforeAll(async () => {
  own = await createTestDatabase();
  database = openDatabase({ connectionString: own.url, connectionsMax: 4 });
  operator = createOperator({ pool: database.pool });
});
afterAll(async () => {
  await operator.close();
  await database.close();
  await own.drop();
});
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
  await sql(
    `select pgqueue.dispatch('s', 1, $1::uuid[], array_fill('default'::text, array[cardinality($1::uuid[])]), null, null, false)`,
    [ids],
  );
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
    expect(status.leader.expiresInMs).toBeGreaterThan(50_000);
    expect(status.queues[0]?.oldestMs).toBeGreaterThan(0);
    expect(status.queues[0]?.claimAgeMs).toBeGreaterThan(0);
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

  test('names the session that holds the oldest snapshot', async () => {
    const holder = await database.pool.connect();
    try {
      await holder.query(`set application_name = 'a long report'`);
      await holder.query('begin isolation level repeatable read');
      const { rows } = await holder.query(
        'select pg_backend_pid() as pid from pgqueue.queue right join (select 1) o on true',
      );
      await sql('insert into pgqueue.queue (task) values ($1)', ['hello']);
      const { oldestSnapshot } = await operator.status();
      expect(oldestSnapshot).toMatchObject({
        pid: rows[0].pid,
        application: 'a long report',
        state: 'idle in transaction',
        ageMs: expect.any(Number),
      });
    } finally {
      await holder.query('rollback');
      await holder.query('reset application_name');
      holder.release();
    }
  });
});

describe('explain', () => {
  const kinds = async (id: string): Promise<readonly string[]> =>
    (await operator.explain(id)).reasons.map(({ kind }) => kind);

  test('says what a job waits for, step by step, until it runs and ends', async () => {
    const first = await enqueue();
    const id = await enqueue();
    await operator.queues.pause('default');
    expect(await kinds(id)).toEqual(['queue_paused', 'no_leader', 'no_capable_node', 'in_line']);
    expect((await operator.explain(id)).ahead).toBe(1);
    await operator.queues.resume('default');
    await sql(`select * from pgqueue.lead('s', 60000)`);
    expect(await kinds(id)).toEqual(['no_capable_node', 'in_line']);
    const incarnation = await node();
    expect(await kinds(id)).toEqual(['in_line']);
    await schedule([first, id]);
    expect(await kinds(id)).toEqual(['ready']);
    await sql('select * from pgqueue.claim($1, $2, 1)', ['n', incarnation]);
    expect((await operator.explain(id)).reasons).toMatchObject([
      { kind: 'no_free_slots', slots: 1, running: 1, ready: 1 },
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
    const ahead = async (id: string): Promise<number | null> => (await operator.explain(id)).ahead;
    const low = await enqueue(`('hello', 'k', 5)`, 'task, key, priority');
    const late = await enqueue(`('hello', 'k', 1)`, 'task, key, priority');
    await enqueue(`('hello', 'another', -9)`, 'task, key, priority');
    expect([await ahead(low), await ahead(late)]).toEqual([1, 0]);
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
