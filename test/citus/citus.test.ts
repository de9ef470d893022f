import { implement } from '@pgqueue/core';
import type { Router, RouterWorker } from '@pgqueue/router';
import { createRouter } from '@pgqueue/router';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../support/until.ts';
import type { Cluster } from './cluster.ts';
import { startCluster } from './cluster.ts';
import { crash, crashWithin, startWriters } from './crashes.ts';
import { findCitus } from './extension.ts';
import { books, createTables, greet, newId, order, recover, ship } from './orders.ts';

const binaries = findCitus();
if (binaries === undefined)
  console.warn(
    'skipped: no PostgreSQL here has the extension Citus; docs/guides/citus.md tells how to build it',
  );

let cluster: Cluster;
let router: Router;
let worker: RouterWorker;
/** Jobs that were done, and those of tries that found no order yet. */
const done: string[] = [];
const early: string[] = [];

beforeAll(async () => {
  if (binaries === undefined) return;
  cluster = await startCluster(binaries);
  await createTables(cluster);
  router = createRouter({ installations: cluster.nodes.map(({ installation }) => installation) });
  worker = router.worker({
    concurrency: 10,
    tasks: [
      implement(greet, () => null),
      implement(ship, async (_, { job }) => {
        const found = await cluster.coordinator.database.query('select from orders where id = $1', [job.id]);
        if (found.length === 0) {
          early.push(job.id);
          throw new Error('the order is not there yet');
        }
        done.push(job.id);
      }),
    ],
  });
  await worker.start();
});

afterAll(async () => {
  if (binaries === undefined) return;
  await worker.stop();
  await router.close();
  await cluster.close();
});

/** Numbers of jobs in a table of each installation. */
const count = (table: 'queue' | 'history'): Promise<readonly number[]> =>
  Promise.all(
    cluster.nodes.map(
      async ({ database }) => (await database.query(`select from pgqueue.${table}`, [])).length,
    ),
  );
const allEnded = (): Promise<unknown> =>
  until('all jobs to end', async () => (await count('queue')).every((jobs) => jobs === 0));
const allRecovered = (): Promise<unknown> =>
  until('recovery of all transactions', async () => (await recover(cluster)) === 0);
/** Numbers of orders and jobs with an id. */
const found = async (id: string): Promise<readonly [orders: number, jobs: number]> => {
  const { orders, jobs } = await books(cluster);
  return [orders.filter((one) => one === id).length, jobs.filter((one) => one === id).length];
};

describe.skipIf(binaries === undefined)('an installation on each node of Citus', () => {
  test('jobs that a router enqueues run on all three', async () => {
    const jobs = Array.from({ length: 300 }, (_, n) => greet.job({ name: `name-${n % 60}` }));
    await router.producer.enqueueMany(jobs);
    await allEnded();
    const ended = await count('history');
    expect(ended.reduce((sum, jobs) => sum + jobs, 0)).toBe(300);
    expect(Math.min(...ended)).toBeGreaterThan(50);
  });

  test('an order and its job are committed together, or rolled back together, at each node', async () => {
    for (const node of cluster.nodes) {
      expect(await found(await order(node, router))).toEqual([1, 1]);
      const id = newId();
      await expect(order(node, router, { id, fail: true })).rejects.toThrow('rolled back');
      expect(await found(id)).toEqual([0, 0]);
    }
  });

  test.each([
    {
      what: 'a worker node dies before it says that it has prepared: neither',
      moment: { held: 'workers', dies: 'workers' },
      outcome: 'rejected',
      left: [0, 0],
    },
    {
      what: 'a worker node dies before it is told to commit what it has prepared: both',
      moment: { held: 'coordinator', dies: 'workers' },
      outcome: 'fulfilled',
      left: [1, 1],
    },
    {
      what: 'the coordinator dies before it tells a worker node to commit: both',
      moment: { held: 'coordinator', dies: 'coordinator' },
      outcome: 'rejected',
      left: [1, 1],
    },
    // the way of Citus with writes to one shard alone, and the reason for `two_phase`
    {
      what: 'in one phase, a worker node dies before it says that it has committed: an order without its job',
      moment: { held: 'workers', dies: 'workers' },
      twoPhase: false,
      outcome: 'rejected',
      left: [1, 0],
    },
  ] as const)('$what', async ({ moment, outcome, left, ...options }) => {
    const id = newId();
    const { status } = await crashWithin(cluster, moment, () =>
      order(cluster.coordinator, router, { id, ...options }),
    );
    expect(status).toBe(outcome);
    if (outcome === 'fulfilled') await until('its job to look for it in vain', () => early.includes(id));
    await allRecovered();
    expect(await found(id)).toEqual(left);
    if (left[1] === 1) await until('its job to be done', () => done.includes(id));
    else await cluster.coordinator.database.query('delete from orders where id = $1', [id]);
  });

  test('crashes of every node under load: each order has its job, and each job was done', async () => {
    const { coordinator, workers } = cluster;
    const [one, two] = workers;
    const { written, stop } = startWriters(cluster, router, 5);
    let prepared = 0;
    for (const how of ['immediate', 'kill'] as const)
      for (const node of [one, two, coordinator, one, two]) prepared += await crash(node, how, written);
    await stop();
    await allRecovered();
    await allEnded();
    const { orders, jobs } = await books(cluster);
    const { committed, failed } = written;
    const figures = { orders: orders.length, committed: committed.length, failed, prepared };
    console.log(JSON.stringify({ ...figures, done: done.length, early: early.length }));
    expect(jobs).toEqual([...new Set(jobs)]);
    expect(jobs).toEqual(orders);
    expect([...new Set(done)].toSorted()).toEqual(orders);
    expect(committed.filter((id) => !orders.includes(id))).toEqual([]);
  });

  test('the doctor finds nothing on any of them', async () => {
    for (const { operator } of cluster.nodes) expect((await operator.doctor()).findings).toEqual([]);
    expect((await router.operator.check()).misfits).toEqual([]);
  });
});
