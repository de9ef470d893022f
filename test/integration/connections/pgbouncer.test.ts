import { randomUUID } from 'node:crypto';
import type { Observer } from '@pgqueue/core';
import { defineTask, implement } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import type { Lease } from '@pgqueue/postgres/internal';
import { migrate } from '@pgqueue/postgres';
import {
  breaches,
  cancel,
  checkSchemaVersion,
  claim,
  dispatch,
  extend,
  heartbeatNode,
  lead,
  leaveNode,
  maintainHistory,
  openDatabase,
  promote,
  reap,
  registerNode,
  release,
  reportProgressOfAll,
  resign,
  settle,
  sqlState,
  startListener,
} from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { TestDatabase } from '../../support/database.ts';
import { createTestDatabase } from '../../support/database.ts';
import type { PgBouncer } from '../../support/pgbouncer.ts';
import { startPgBouncer } from '../../support/pgbouncer.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../scheduler/support.ts';
import { maintained } from '../sql/support.ts';

const noPgBouncer = lacks('pgbouncer');

const poolSize = 2;
const clients = 20;
const schema = 'bounced';

let own: TestDatabase;
let bouncer: PgBouncer;
let databases: readonly Database[];

beforeAll(async () => {
  if (noPgBouncer) return;
  own = await createTestDatabase();
  bouncer = await startPgBouncer(own.url, poolSize);
  await migrate({ connectionString: bouncer.url, schema });
  databases = Array.from({ length: clients }, () =>
    openDatabase({ connectionString: bouncer.url, schema, connectionsMax: 1 }),
  );
});
afterAll(async () => {
  if (noPgBouncer) return;
  await Promise.all(databases.map((database) => database.close()));
  await bouncer.stop();
  await own.drop();
});

const done = (lease: Lease): Parameters<typeof settle>[1][number] => ({
  ...lease,
  outcome: 'done',
  delayMs: null,
  data: null,
});

async function join(database: Database, node: string): Promise<string> {
  const incarnation = randomUUID();
  const tasks = { hello: { min: 1, max: 1, timeoutMs: null } };
  const times = { heartbeatMs: 30_000, lostAfterMs: 60_000 };
  const registered = await registerNode(database, {
    node,
    incarnation,
    tasks,
    slots: 10,
    pool: 'default',
    ...times,
    software: '',
    seen: null,
  });
  expect(registered).toEqual({ accepted: true });
  return incarnation;
}

/**
 * Claims and settles jobs as one node until none is left, with a heartbeat between rounds. Returns the number
 * settled.
 */
async function work(database: Database, node: string): Promise<number> {
  const incarnation = await join(database, node);
  for (let settled = 0; ;) {
    const jobs = await claim(database, { node, incarnation, max: 7, token: randomUUID() });
    if (jobs.length === 0) return settled;
    const leases = jobs.map(({ id, token }) => ({ id, token }));
    const beat = await heartbeatNode(database, { node, incarnation, draining: false, leases });
    expect(beat).toEqual({ alive: true, cancelled: [], lost: [] });
    expect(
      (
        await extend(
          database,
          leases.map((lease) => ({ ...lease, ms: 60_000 })),
        )
      ).size,
    ).toBe(leases.length);
    settled += (await settle(database, leases.map(done))).size;
  }
}

/**
 * Reads the session state of every connection to the server: settings, prepared statements, locks and
 * channels that clients may have left behind.
 */
async function sessionState(): Promise<readonly unknown[]> {
  const rows = await Promise.all(
    databases.map((database) =>
      database.query<{ readonly pid: number }>(
        `select pg_backend_pid() as pid, current_setting('synchronous_commit') as durable, current_setting('search_path') as path,
           current_setting('lock_timeout') as wait, current_setting('enable_seqscan') as scan,
           (select count(*)::integer from pg_prepared_statements) as prepared,
           (select count(*)::integer from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
           (select count(*)::integer from pg_listening_channels()) as channels, pg_sleep(0.005)::text`,
        [],
      ),
    ),
  );
  const byPid = new Map(rows.flat().map(({ pid, ...state }) => [pid, state]));
  expect(byPid.size).toBe(poolSize);
  return [...byPid.values()];
}

/** Tells whether the pooler refuses a client at once; clients that came before a login has failed wait instead. */
async function isRefused(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, query_timeout: 500 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select 1');
    return false;
  } catch (error) {
    return sqlState(error) === '08P01';
  } finally {
    await client.end();
  }
}

describe.skipIf(noPgBouncer)('through PgBouncer in transaction mode', () => {
  test('20 clients enqueue, claim, beat, extend and settle over 2 connections; nobody keeps anything of a session', async () => {
    const [first] = databases;
    if (first === undefined) throw new Error('no database');
    await checkSchemaVersion(first, schema);
    await Promise.all(
      databases.map((database) =>
        database.query(`insert into ${schema}.queue (task) select 'hello' from generate_series(1, 20)`, []),
      ),
    );
    const { leads, epoch } = await lead(first, 'l', 60_000);
    expect(leads).toBe(true);
    const ids = (await first.query<{ id: string }>(`select id from ${schema}.queue`, [])).map(({ id }) => id);
    const jobs = ids.map((id) => ({ id, pool: 'default', rowVersion: null, bundle: null }));
    const plan = { leader: 'l', epoch, jobs, parts: { p: { n: 1 } }, settled: [], notify: true };
    expect((await dispatch(first, plan)).positions.size).toBe(20 * clients);
    const shares = await Promise.all(databases.map((database, index) => work(database, `n${index}`)));
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(20 * clients);
    expect(await breaches(first)).toEqual([]);
    for (const state of await sessionState()) {
      expect(state).toMatchObject({
        durable: 'on',
        wait: '0',
        scan: 'on',
        prepared: 0,
        locks: 0,
        channels: 0,
      });
      expect(state).not.toMatchObject({ path: expect.stringContaining(schema) });
    }
  });

  test('one leads, however many ask by whichever connection; the others wait for its end', async () => {
    const [first] = databases;
    if (first === undefined) throw new Error('no database');
    await first.query(`update ${schema}.scheduler_lease set expires = '-infinity', leader = null`, []);
    const answers = await Promise.all(
      databases.map((database, index) => lead(database, `l${index}`, 60_000)),
    );
    expect(answers.filter(({ leads }) => leads)).toHaveLength(1);
    const { leader, epoch } = answers.find(({ leads }) => leads) ?? { leader: '', epoch: 0 };
    expect(await promote(first, { leader: leader ?? '', epoch }, 10)).toEqual({
      promoted: 0,
      nextDueMs: null,
    });
    expect(await resign(first, leader ?? '', epoch)).toBe(true);
  });

  test('the other statements, and a transaction that is rolled back', async () => {
    const [first, second] = databases;
    if (first === undefined || second === undefined) throw new Error('no database');
    const failing = first.transaction(async (client) => {
      await client.query(`insert into ${schema}.queue (task) values ('hello')`);
      throw new Error('on purpose');
    });
    await expect(failing).rejects.toThrow('on purpose');
    const [row] = await second.query<{ id: string }>(
      `insert into ${schema}.queue (task) values ('hello') returning id`,
      [],
    );
    const { epoch } = await lead(first, 'l', 60_000);
    const id = row?.id ?? '';
    const plan = {
      leader: 'l',
      epoch,
      jobs: [{ id, pool: 'default', rowVersion: null, bundle: null }],
      parts: null,
      settled: [],
      notify: false,
    };
    expect([...(await dispatch(first, plan)).positions.keys()]).toEqual([id]);
    const incarnation = await join(second, 'last');
    const [job] = await claim(second, { node: 'last', incarnation, max: 5, token: randomUUID() });
    const lease = { id, token: job?.token ?? '' };
    expect((await reportProgressOfAll(first, [{ ...lease, progress: '{"half": true}' }])).size).toBe(1);
    expect(await release(first, [lease])).toEqual(new Set([id]));
    expect(await reap(first)).toBe(0);
    expect(await cancel(second, [id])).toEqual(new Map([[id, 'cancelled']]));
    expect(await leaveNode(second, 'last', incarnation)).toBe(true);
    expect(await maintained(() => maintainHistory(first))).toEqual({
      created: 0,
      dropped: 0,
      outcome: 'done',
    });
    await resign(first, 'l', epoch);
  });

  test('producer, scheduler and worker, polling', async () => {
    const options = { connectionString: bouncer.url, schema, listen: false };
    const hello = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
    const seen: number[] = [];
    const jobs = Array.from({ length: 60 }, (_, n) => n);
    const producer = createProducer({ connectionString: bouncer.url, schema });
    const scheduler = createScheduler(options);
    const worker = createWorker({
      ...options,
      tasks: [implement(hello, ({ n }) => void seen.push(n))],
    });
    try {
      await Promise.all([scheduler.start(), worker.start()]);
      // prepared on one session, many of these statements are then sent to the other one
      await Promise.all(jobs.map((n) => producer.enqueue(hello, { n })));
      await until('all jobs to run', () => seen.length === jobs.length);
    } finally {
      await worker.stop();
      await scheduler.stop();
      await producer.close();
    }
    expect(seen.toSorted((a, b) => a - b)).toEqual(jobs);
  });

  test('a listener knows that it may hear nothing, so its owner polls', async () => {
    const [heard, errors]: [string[], unknown[]] = [[], []];
    const listener = startListener({
      connectionString: bouncer.url,
      channels: ['any'],
      onHint: (channel) => heard.push(channel),
      onError: (error) => errors.push(error),
    });
    try {
      await until('the first hint', () => heard.length === 1);
      expect([listener.hearing(), errors]).toEqual([false, []]);
    } finally {
      await listener.stop();
    }
  });

  test('an enqueue goes on while logins fail, however many tries are refused at once', async () => {
    const url = new URL(own.url);
    const name = url.pathname.slice(1);
    url.pathname = '/postgres';
    const admin = new pg.Client({ connectionString: url.href });
    const pooler = await startPgBouncer(own.url, 1);
    const refusals: unknown[] = [];
    let opening: Promise<unknown> = Promise.resolve();
    const open = (now: boolean): Promise<unknown> =>
      admin.query(`alter database ${name} allow_connections ${now}`);
    const observe: Observer = (event) => {
      if (event.type === 'database.error') refusals.push(event.error);
      if (refusals.length === 10) opening = open(true);
    };
    const producer = createProducer({ connectionString: pooler.url, schema, observe });
    try {
      await admin.connect();
      await open(false);
      await admin.query('select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1', [
        name,
      ]);
      await until('PgBouncer to refuse by itself', () => isRefused(pooler.url));
      await producer.enqueue(defineTask({ name: 'hello', payload: z.object({}) }), {});
    } finally {
      await opening;
      await open(true);
      await Promise.all([producer.close(), pooler.stop(), admin.end()]);
    }
    const failing = { code: '08P01', message: expect.stringContaining('server_login_retry') };
    expect(refusals.length).toBeGreaterThanOrEqual(10);
    expect(refusals[0]).toMatchObject(failing);
  });
});
