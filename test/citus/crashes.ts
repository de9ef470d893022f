// Writers of orders, and crashes of nodes beneath them.
import { setTimeout as delay } from 'node:timers/promises';
import type { Router } from '@pgqueue/router';
import { until } from '../support/until.ts';
import type { Cluster, Node } from './cluster.ts';
import { newId, order } from './orders.ts';

export interface Written {
  /** Ids of the orders whose commit was answered. */
  readonly committed: string[];
  /** Transactions that failed: an order may be there nevertheless, with its job. */
  failed: number;
}

/** Starts writers, at all nodes in turn, which go on after any error. */
export function startWriters(
  { nodes }: Cluster,
  router: Router,
  each: number,
): { readonly written: Written; readonly stop: () => Promise<void> } {
  const written: Written = { committed: [], failed: 0 };
  const ended = new AbortController();
  const write = async (node: Node, writer: number): Promise<void> => {
    for (let n = 0; !ended.signal.aborted; n += 1) {
      const id = newId();
      try {
        written.committed.push(await order(node, router, { id, customer: `customer-${(writer + n) % 20}` }));
      } catch {
        written.failed += 1;
        await delay(100);
      }
    }
  };
  const writing = Array.from({ length: each }, (_, n) => nodes.map((node) => write(node, n))).flat();
  return {
    written,
    stop: async () => {
      ended.abort();
      await Promise.all(writing);
    },
  };
}

/** Crashes a node, starts it again, and waits until many orders are written again. @returns the transactions that it had prepared */
export async function crash(
  { server }: Node,
  how: 'immediate' | 'kill',
  { committed }: Written,
): Promise<number> {
  await (how === 'kill' ? server.kill() : server.stop('immediate'));
  await delay(500);
  await server.start();
  const prepared = await server.query('select from pg_prepared_xacts');
  const before = committed.length;
  await until('orders to be written again', () => committed.length > before + 100);
  return prepared.length;
}

/** A moment within a commit, and who dies then. */
export interface Moment {
  /** Nodes of which one has taken its step of the commit, and does not answer yet: a standby that never comes holds the answer. */
  readonly held: 'coordinator' | 'workers';
  /** Kind of the node that dies then; it has a part in the commit. */
  readonly dies: 'coordinator' | 'workers';
}

/** Crashes a node at a moment within the commit of `write`, and starts it again. */
export async function crashWithin(
  { coordinator, workers }: Cluster,
  { held, dies }: Moment,
  write: () => Promise<unknown>,
): Promise<PromiseSettledResult<unknown>> {
  const holding = held === 'workers' ? workers : [coordinator];
  await Promise.all(holding.map((node) => waitForStandby(node, 'nobody')));
  const written = Promise.allSettled([write()]);
  const { server } = await until('a commit to be held', async () => {
    const holder = await findNode(holding, holdsAnswer);
    return dies === held || holder === undefined ? holder : findNode(workers, hasPrepared);
  });
  await server.stop('immediate');
  await server.start();
  await Promise.all(holding.map((node) => waitForStandby(node, '')));
  return (await written)[0];
}

async function waitForStandby({ server }: Node, standby: string): Promise<void> {
  await server.query(`alter system set synchronous_standby_names = '${standby}'`);
  await server.query('select pg_reload_conf()');
}

async function findNode(
  nodes: readonly Node[],
  is: (node: Node) => Promise<boolean>,
): Promise<Node | undefined> {
  const are = await Promise.all(nodes.map(is));
  return nodes.find((_, n) => are[n]);
}

/** True while an order has prepared or committed here, and the standby is waited for. */
async function holdsAnswer({ server }: Node): Promise<boolean> {
  const waiting = await server.query(
    `select from pg_stat_activity where wait_event = 'SyncRep'
     and (application_name like 'citus_internal%' or application_name like '%orders%')`,
  );
  return waiting.length > 0;
}

async function hasPrepared({ server }: Node): Promise<boolean> {
  return (await server.query('select from pg_prepared_xacts')).length > 0;
}
