// The processes and the load of a proof.
import { randomUUID } from 'node:crypto';
import type { Database } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Actor } from '../support/actors.ts';
import { startActor } from '../support/actors.ts';
import type { ProofConfig } from './actors/config.ts';

/** Processes by name; all of them are stopped with it. */
export interface Fleet {
  readonly url: string;
  readonly database: Database;
  readonly schedulers: Map<string, Actor>;
  readonly workers: Map<string, Actor>;
  readonly startSchedulers: (names: readonly string[], config: ProofConfig) => Promise<void>;
  readonly startWorkers: (names: readonly string[], config: ProofConfig) => Promise<void>;
  readonly stopWorkers: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

export function openFleet(url: string): Fleet {
  const database = openDatabase({ connectionString: url, connectionsMax: 6 });
  const schedulers = new Map<string, Actor>();
  const workers = new Map<string, Actor>();
  const start = async (
    kind: 'scheduler' | 'worker',
    names: readonly string[],
    config: ProofConfig,
  ): Promise<void> => {
    const policies = new URL('actors/policies.ts', import.meta.url).href;
    const [into, how] =
      kind === 'scheduler'
        ? [schedulers, { options: { leaseMs: 1_000, policies, ...config } }]
        : [workers, { options: config, file: new URL('actors/worker.ts', import.meta.url) }];
    await Promise.all(
      names.map(async (name) => into.set(name, await startActor(kind, { url, name, ...how }))),
    );
  };
  const stopAll = async (actors: Map<string, Actor>): Promise<void> => {
    const all = [...actors.values()];
    actors.clear();
    await Promise.all(all.map((actor) => actor.stop()));
  };
  return {
    url,
    database,
    schedulers,
    workers,
    startSchedulers: (names, config) => start('scheduler', names, config),
    startWorkers: (names, config) => start('worker', names, config),
    stopWorkers: () => stopAll(workers),
    stop: async () => {
      await Promise.all([stopAll(workers), stopAll(schedulers)]);
      await database.close();
    },
  };
}

/** Jobs of task `work`, enqueued by one statement, as a plain SQL client would. */
export interface Load {
  readonly count: number;
  readonly queue?: string;
  readonly key?: string;
  readonly tenant?: string;
  readonly ms?: number;
  /** Tries that fail. */
  readonly fails?: number;
  readonly priority?: number;
}

/** Resolves to the database's time at which the statement began; hints once it has committed. */
export async function load(database: Database, jobs: Load): Promise<number> {
  const { count, queue = 'default', key = '', tenant = '', ms = 1, fails = 0, priority = 0 } = jobs;
  const [row] = await database.query<{ begun: number }>(
    `with made as (
       insert into pgqueue.queue (task, queue, key, priority, max_tries, max_crashes, attributes, payload)
       select 'work', $2, $3, $4, 1000, 1000, jsonb_build_object('tenant', $5::text), jsonb_build_object('ms', $6::float8, 'fails', $7::integer)
       from generate_series(1, $1::integer))
     select extract(epoch from now())::float8 * 1000 as begun`,
    [count, queue, key, priority, tenant, ms, fails],
  );
  await hint(database);
  return row?.begun ?? NaN;
}

export async function hint(database: Database): Promise<void> {
  await database.query(`select pg_notify('pgqueue:queue', '')`, []);
}

/** How many rows of a table there are, under a condition. */
export async function countRows(database: Database, table: string, where = 'true'): Promise<number> {
  const [row] = await database.query<{ n: number }>(
    `select count(*)::integer as n from pgqueue.${table} where ${where}`,
    [],
  );
  return row?.n ?? 0;
}

/** A name that no other run of the same database has used. */
export function fresh(prefix: string): string {
  return `${prefix}-${randomUUID().slice(0, 8)}`;
}

/** When a done job's lease began and ended, in Unix milliseconds of the database, and what its handler returned. */
export interface DoneJob {
  readonly id: string;
  readonly tenant: string;
  readonly key: string;
  readonly createdMs: number;
  readonly startedMs: number;
  readonly finishedMs: number;
  readonly beganMs: number;
  readonly endedMs: number;
}

export function doneJobs(database: Database, since: number): Promise<readonly DoneJob[]> {
  return database.query<DoneJob>(
    `select id, key, coalesce(attributes ->> 'tenant', '') as tenant,
            extract(epoch from created)::float8 * 1000 as "createdMs",
            extract(epoch from started)::float8 * 1000 as "startedMs",
            extract(epoch from finished)::float8 * 1000 as "finishedMs",
            (result ->> 'beganMs')::float8 as "beganMs", (result ->> 'endedMs')::float8 as "endedMs"
     from pgqueue.history
     where outcome = 'done' and finished >= to_timestamp($1::float8 / 1000) order by finished`,
    [since],
  );
}
