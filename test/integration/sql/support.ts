import { randomUUID } from 'node:crypto';
import type { ClaimedJob } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type {
  Lease,
  Leader,
  maintainHistory,
  SettleRequest,
  SettleVerdict,
} from '@pgqueue/postgres/internal';
import {
  breaches,
  claim,
  dispatch,
  lead,
  openDatabase,
  registerNode,
  settle,
} from '@pgqueue/postgres/internal';
import pg from 'pg';
import { expect } from 'vitest';
import type { TestDatabase } from '../../support/database.ts';
import { createTestDatabase } from '../../support/database.ts';
import { emptying, jobTables } from '../../support/empty.ts';

import { until } from '../../support/until.ts';

export { until };

type Row = Readonly<Record<string, unknown>>;

/** A connection of its own: a session whose transaction a test holds open. */
export interface Session {
  readonly sql: (text: string, values?: readonly unknown[]) => Promise<readonly Row[]>;
  readonly pid: number;
  readonly end: () => Promise<void>;
}

export interface Member {
  readonly id: string;
  readonly incarnation: string;
}

/** A database with a leader, and the short ways to put jobs into any state. */
export interface Ground {
  readonly test: TestDatabase;
  readonly database: Database;
  readonly leader: () => Leader;
  readonly sql: (text: string, values?: readonly unknown[]) => Promise<readonly Row[]>;
  /** The first column of the first row. */
  readonly one: (text: string, values?: readonly unknown[]) => Promise<unknown>;
  readonly session: () => Promise<Session>;
  /** Begins a statement that has to wait for a lock; the answer comes when the other transaction has ended. */
  readonly waiting: (session: Session, text: string) => Promise<{ readonly answer: Promise<readonly Row[]> }>;
  readonly insert: (columns?: Row) => Promise<string>;
  readonly node: (id?: string, options?: { readonly lostAfterMs?: number }) => Promise<Member>;
  readonly dispatch: (ids: readonly string[]) => Promise<ReadonlySet<string>>;
  readonly claim: (node: Member, max?: number, token?: string) => Promise<readonly ClaimedJob[]>;
  /** Enqueued, dispatched and claimed by this node. */
  readonly running: (node: Member, columns?: Row) => Promise<Lease>;
  readonly settle: (
    leases: readonly Lease[],
    outcome: SettleRequest['outcome'],
    rest?: { readonly delayMs?: number; readonly data?: unknown; readonly repeat?: boolean },
  ) => Promise<ReadonlyMap<string, SettleVerdict>>;
  /** The row of the view job. */
  readonly job: (id: string) => Promise<Row>;
  /** Empties all tables, and leads anew. */
  readonly reset: () => Promise<void>;
  /** Fails when an invariant is broken. */
  readonly sound: () => Promise<void>;
  readonly close: () => Promise<void>;
}

export function settlement(
  { id, token }: Lease,
  outcome: SettleRequest['outcome'],
  rest: { readonly delayMs?: number; readonly data?: unknown } = {},
): SettleRequest {
  const data = rest.data === undefined ? null : JSON.stringify(rest.data);
  return { id, token, outcome, delayMs: rest.delayMs ?? null, data };
}

export async function openGround(): Promise<Ground> {
  const test = await createTestDatabase();
  const database = openDatabase({ connectionString: test.url, connectionsMax: 6 });
  const looks = looksOf(database);
  let epoch = 0;
  const leader = (): Leader => ({ leader: 'leader', epoch });
  return {
    ...looks,
    ...actsOf(database, looks, leader),
    test,
    database,
    leader,
    session: () => openSession(test.url),
    reset: async () => {
      await looks.sql(emptying([...jobTables, 'queue_config', 'policy_state', 'schedule']));
      await looks.sql(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity'`);
      ({ epoch } = await lead(database, 'leader', 600_000));
    },
    close: async () => {
      await database.close();
      await test.drop();
    },
  };
}

type Looks = Pick<Ground, 'sql' | 'one' | 'waiting' | 'job' | 'sound'>;

function looksOf(database: Database): Looks {
  const sql: Ground['sql'] = (text, values = []) => database.query<Row>(text, values);
  return {
    sql,
    one: async (text, values) => Object.values((await sql(text, values))[0] ?? {})[0],
    waiting: async (session, text) => {
      const answer = session.sql(text);
      answer.catch(() => {}); // it is awaited later
      await waitsForLock(database, session.pid);
      return { answer };
    },
    job: async (id) => {
      const rows = await sql('select * from pgqueue.job where id = $1', [id]);
      expect(rows).toHaveLength(1);
      return rows[0] ?? {};
    },
    sound: async () => {
      expect(await breaches(database)).toEqual([]);
    },
  };
}

type Acts = Pick<Ground, 'insert' | 'node' | 'dispatch' | 'claim' | 'running' | 'settle'>;

function actsOf(database: Database, { one }: Looks, leader: () => Leader): Acts {
  const insert: Ground['insert'] = async (columns = {}) => {
    const all: Row = { task: 'hello', ...columns };
    const names = Object.keys(all);
    const marks = names.map((_, index) => `$${index + 1}`);
    const text = `insert into pgqueue.queue (${names.join(', ')}) values (${marks.join(', ')}) returning id`;
    return String(await one(text, Object.values(all)));
  };
  const plan = { parts: null, settled: [], notify: false };
  const dispatchAll: Ground['dispatch'] = async (ids) => {
    const jobs = ids.map((id) => ({ id, pool: 'default', rowVersion: null, bundle: null }));
    return new Set((await dispatch(database, { ...leader(), ...plan, jobs })).positions.keys());
  };
  const claimSome: Ground['claim'] = ({ id, incarnation }, max = 100, token = randomUUID()) =>
    claim(database, { node: id, incarnation, max, token });
  return {
    insert,
    node: (id = 'node', { lostAfterMs = 60_000 } = {}) => join(database, id, lostAfterMs),
    dispatch: dispatchAll,
    claim: claimSome,
    running: async (node, columns) => {
      const id = await insert(columns);
      await dispatchAll([id]);
      const claimed = await claimSome(node);
      expect(claimed.map((job) => job.id)).toEqual([id]);
      return { id, token: claimed[0]?.token ?? '' };
    },
    settle: (leases, outcome, { repeat = false, ...rest } = {}) =>
      settle(
        database,
        leases.map((lease) => settlement(lease, outcome, rest)),
        { repeat },
      ),
  };
}

async function join(database: Database, id: string, lostAfterMs: number): Promise<Member> {
  const incarnation = randomUUID();
  const registered = await registerNode(database, {
    node: id,
    incarnation,
    tasks: { hello: { min: 1, max: 2, timeoutMs: 60_000 } },
    slots: 10,
    pool: 'default',
    heartbeatMs: lostAfterMs / 2,
    lostAfterMs,
    software: 'test',
    seen: null,
  });
  expect(registered).toEqual({ accepted: true });
  return { id, incarnation };
}

async function openSession(connectionString: string): Promise<Session> {
  const client = new pg.Client({ connectionString, application_name: 'session' });
  await client.connect();
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return {
    sql: async (text, values = []) => (await client.query<Row>(text, [...values])).rows,
    pid: rows[0]?.pid ?? 0,
    end: () => client.end(),
  };
}

async function waitsForLock(database: Database, pid: number): Promise<void> {
  await until('the session to wait for a lock', async () => {
    const rows = await database.query<Row>(
      `select 1 from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`,
      [pid],
    );
    return rows.length > 0;
  });
}

type Maintained = Awaited<ReturnType<typeof maintainHistory>>;

/**
 * Maintains the partitions of history until nothing is in the way; adds up what the calls did. An autovacuum of
 * a partition that takes longer than the call's lock_timeout makes it answer `waits`.
 */
export async function maintained(maintain: () => Promise<Maintained>): Promise<Maintained> {
  let [created, dropped] = [0, 0];
  return until('history to be maintained', async () => {
    const told = await maintain();
    [created, dropped] = [created + told.created, dropped + told.dropped];
    return told.outcome !== 'waits' && { ...told, created, dropped };
  });
}
