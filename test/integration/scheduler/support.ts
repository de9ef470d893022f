import { randomUUID } from 'node:crypto';
import type { PgQueueEvent } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import { claim, openDatabase, registerNode, settle } from '@pgqueue/postgres/internal';
import type { Scheduler, SchedulerOptions } from '@pgqueue/scheduler';
import { createScheduler } from '@pgqueue/scheduler';
import pg from 'pg';
import { expect } from 'vitest';
import type { TestDatabase } from '../../support/database.ts';
import { createTestDatabase } from '../../support/database.ts';
import { emptying, jobTables } from '../../support/empty.ts';
import { until } from '../../support/until.ts';

export { until };

export interface Bench {
  readonly test: TestDatabase;
  readonly database: Database;
  /** Starts a scheduler that is stopped with the bench, and records its events. */
  readonly scheduler: (options?: Partial<SchedulerOptions>) => Promise<TestScheduler>;
  readonly node: (options?: Partial<NodeOptions>) => Promise<TestNode>;
  readonly enqueue: (jobs: Enqueue) => Promise<void>;
  /** Wakes listening schedulers. */
  readonly hint: () => Promise<void>;
  readonly items: () => Promise<readonly Item[]>;
  readonly count: (table: string, where?: string) => Promise<number>;
  /** Empties everything and stops the schedulers, between tests. */
  readonly clear: () => Promise<void>;
  readonly close: () => Promise<void>;
}

export interface TestScheduler extends Scheduler {
  readonly events: readonly PgQueueEvent[];
}

export interface NodeOptions {
  readonly id: string;
  readonly slots: number;
  readonly pool: string;
  readonly tasks: Readonly<
    Record<string, { readonly min: number; readonly max: number; readonly batch?: boolean }>
  >;
  readonly lostAfterMs: number;
}

export interface TestNode {
  readonly claim: (max: number) => Promise<readonly { readonly id: string; readonly token: string }[]>;
  readonly done: (jobs: readonly { readonly id: string; readonly token: string }[]) => Promise<void>;
}

export interface Enqueue {
  readonly count: number;
  readonly task?: string;
  readonly queue?: string;
  readonly key?: string;
  readonly priority?: number;
  readonly version?: number;
  /** SQL. */
  readonly runAfter?: string;
  readonly expiresAt?: string;
}

export interface Item {
  readonly position: number;
  /** Time of the plan that wrote it. */
  readonly dispatched: string;
  readonly id: string;
  readonly key: string;
  readonly task: string;
  readonly seq: number;
  readonly leased: boolean;
}

export async function openBench(): Promise<Bench> {
  const test = await createTestDatabase();
  const database = openDatabase({ connectionString: test.url, connectionsMax: 4 });
  const running: Scheduler[] = [];
  const stopAll = async (): Promise<void> => {
    await Promise.all(running.splice(0).map((scheduler) => scheduler.stop()));
  };
  return {
    test,
    database,
    scheduler: async (options = {}) => {
      const events: PgQueueEvent[] = [];
      const scheduler = createScheduler({
        connectionString: test.url,
        leaseMs: 5_000,
        // no plan is cut off on a busy machine where a test does not want it
        policyBudgetMs: 10_000,
        observe: (event) => events.push(event),
        ...options,
      });
      running.push(scheduler);
      await scheduler.start();
      return Object.defineProperties(Object.create(scheduler), {
        events: { value: events },
      }) as TestScheduler;
    },
    node: (options = {}) => startNode(database, options),
    ...jobsOf(database),
    clear: async () => {
      await stopAll();
      await database.query(emptying([...jobTables, 'queue_config', 'policy_state', 'schedule']), []);
    },
    close: async () => {
      await stopAll();
      await database.close();
      await test.drop();
    },
  };
}

async function startNode(database: Database, options: Partial<NodeOptions>): Promise<TestNode> {
  const { id = 'node', slots = 10, pool = 'default', lostAfterMs = 60_000 } = options;
  const incarnation = randomUUID();
  const tasks = Object.entries(options.tasks ?? { t: { min: 1, max: 1 } });
  const registered = await registerNode(database, {
    node: id,
    incarnation,
    tasks: Object.fromEntries(tasks.map(([task, range]) => [task, { ...range, timeoutMs: null }])),
    slots,
    pool,
    heartbeatMs: lostAfterMs / 2,
    lostAfterMs,
    software: 'test',
    seen: null,
  });
  expect(registered.accepted).toBe(true);
  return {
    claim: (max) => claim(database, { node: id, incarnation, max, token: randomUUID() }),
    done: async (jobs) => {
      const outcome = { outcome: 'done', delayMs: null, data: null } as const;
      await settle(
        database,
        jobs.map((job) => ({ id: job.id, token: job.token, ...outcome })),
      );
      await database.query(`select pg_notify('pgqueue:done', '')`, []);
    },
  };
}

/** How often SQL functions are called from here on, by connections that have ended since. */
export async function countCalls(
  database: Database,
  names: readonly string[],
): Promise<() => Promise<readonly number[]>> {
  await database.query(
    `do $$ begin execute format('alter database %I set track_functions = %L', current_database(), 'all'); end $$`,
    [],
  );
  return () =>
    until('the counts of its connections', async () => {
      const rows = await database.query<{ calls: number }>(
        `select calls::integer as calls from unnest($1::text[]) with ordinality as n (name, at)
         join pg_stat_user_functions on funcname = name order by at`,
        [names],
      );
      return rows.length === names.length && rows.map(({ calls }) => calls);
    });
}

export function ticks(scheduler: TestScheduler): readonly (PgQueueEvent & { type: 'tick' })[] {
  return scheduler.events.filter((event) => event.type === 'tick');
}

function jobsOf(database: Database): Pick<Bench, 'enqueue' | 'hint' | 'items' | 'count'> {
  return {
    enqueue: async ({
      count,
      task = 't',
      queue = 'default',
      key = '',
      priority = 0,
      version = 1,
      ...times
    }) => {
      await database.query(
        `insert into pgqueue.queue (task, queue, key, priority, payload_version, run_after, expires_at)
         select $1, $2, $3, $4, $5, ${times.runAfter ?? 'null'}, ${times.expiresAt ?? 'null'} from generate_series(1, $6)`,
        [task, queue, key, priority, version, count],
      );
    },
    hint: async () => {
      await database.query(`select pg_notify('pgqueue:queue', '')`, []);
    },
    items: () =>
      database.query<Item>(
        `select w.position::float8 as position, w.dispatched::text as dispatched, w.id, q.key, q.task, q.seq::float8 as seq,
                w.lock_key is not null as leased
         from pgqueue.work_item w join pgqueue.queue q on q.id = w.id order by w.position, q.priority, q.seq`,
        [],
      ),
    count: async (table, where = 'true') => {
      const [row] = await database.query<{ n: number }>(
        `select count(*)::integer as n from pgqueue.${table} where ${where}`,
        [],
      );
      return row?.n ?? 0;
    },
  };
}

/** A pool of which each statement with a certain text waits until a function has run. */
export function interruptedPool(bench: Bench, text: string, before: () => Promise<unknown>): pg.Pool {
  class Client extends pg.Client {
    override query(...args: readonly unknown[]): never {
      const [given] = args as readonly [string | { readonly text: string }];
      const query = super.query.bind(this) as (...all: readonly unknown[]) => unknown;
      const isMeant = (typeof given === 'string' ? given : given.text).includes(text);
      return (isMeant ? before().then(() => query(...args)) : query(...args)) as never;
    }
  }
  return new pg.Pool({ connectionString: bench.test.url, max: 4, Client });
}
