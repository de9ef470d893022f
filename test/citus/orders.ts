// Orders in a distributed table, each written in one transaction with a job of the installation of the node that writes it.
import { randomBytes } from 'node:crypto';
import { defineTask, uuidV7 } from '@pgqueue/core';
import type { Router } from '@pgqueue/router';
import { z } from 'zod';
import type { Cluster, Node } from './cluster.ts';

/** Ships an order, whose id is the job's. */
export const ship = defineTask({
  name: 'ship',
  payload: z.object({ customer: z.string() }),
  key: ({ customer }) => customer,
  timeout: '20s',
  retry: { maxTries: 1_000, maxCrashes: 1_000, backoff: 'fixed', base: '100ms' },
});

/** Has nothing to do with orders. */
export const greet = defineTask({
  name: 'greet',
  payload: z.object({ name: z.string() }),
  key: ({ name }) => name,
});

/** Creates the distributed table, and the coordinator's local one: a write to it makes Citus commit in two phases. */
export async function createTables({ coordinator: { database } }: Cluster): Promise<void> {
  await database.query('create table orders (id uuid primary key, customer text not null)', []);
  await database.query(`select create_distributed_table('orders', 'id')`, []);
  await database.query('create table two_phase ()', []);
  await database.query(`select citus_add_local_table_to_metadata('two_phase')`, []);
}

export interface OrderOptions {
  readonly id?: string;
  readonly customer?: string;
  /** Commits in two phases, as only writes of one shard would not. Default true. */
  readonly twoPhase?: boolean;
  /** Throws before the commit. */
  readonly fail?: boolean;
}

/** Writes an order and enqueues its job in one transaction of a node; resolves to their id. */
export async function order(
  { database, installation }: Node,
  router: Router,
  { id = newId(), customer = 'acme', twoPhase = true, fail = false }: OrderOptions = {},
): Promise<string> {
  await database.transaction(async (client) => {
    await client.query('insert into orders (id, customer) values ($1, $2)', [id, customer]);
    if (twoPhase) await client.query('delete from two_phase');
    await router.at(installation.name).with(client).enqueue(ship, { customer }, { id });
    if (fail) throw new Error('rolled back');
  });
  return id;
}

export function newId(): string {
  return uuidV7(Date.now(), randomBytes(10));
}

/** Ids of all orders, and those of all jobs that ship one, both sorted. */
export interface Books {
  readonly orders: readonly string[];
  readonly jobs: readonly string[];
}

export async function books({ coordinator, nodes }: Cluster): Promise<Books> {
  const ids = async ({ database }: Node, sql: string): Promise<readonly string[]> =>
    (await database.query<{ readonly id: string }>(sql, [])).map(({ id }) => id);
  const jobs = await Promise.all(
    nodes.map((node) =>
      ids(
        node,
        `select id from pgqueue.queue where task = 'ship'
         union all select id from pgqueue.history where task = 'ship'
         union all select id from pgqueue.dead_letter where task = 'ship'`,
      ),
    ),
  );
  return {
    orders: (await ids(coordinator, 'select id from orders')).toSorted(),
    jobs: jobs.flat().toSorted(),
  };
}

/** Ends transactions that a crash left prepared, as Citus itself does every minute; resolves to the number of those that are left. */
export async function recover({ nodes }: Cluster): Promise<number> {
  // each node those that it began, on a connection that has not met the crash
  for (const { server } of nodes) await server.query('select recover_prepared_transactions()');
  const left = await Promise.all(nodes.map(({ server }) => server.query('select from pg_prepared_xacts')));
  return left.flat().length;
}
