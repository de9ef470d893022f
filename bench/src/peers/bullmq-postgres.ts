import { createPostgresBackend, runMigrations, withBackend } from 'bullmq';
import type { PgPool } from 'bullmq';
import pg from 'pg';
import type { Payload } from '../load.ts';
import type { Peer, Place, Runner, Stoppable, Wish } from './peer.ts';
import { treeOf } from './bullmq-tree.ts';
import { anyRow, withClient } from './sql.ts';

const { FlowProducer, Queue, Worker } = withBackend(createPostgresBackend);
const name = 'bench';
const concurrency = 32;

export const peer: Peer = {
  name: 'bullmq-postgres',
  store: 'postgres',
  packageName: 'bullmq',
  settings: [
    {
      name: 'best',
      says: `createPostgresBackend; concurrency ${concurrency}, as many connections, removeOnComplete and removeOnFail { count: 0 }`,
      share: 0.1,
    },
    {
      name: 'readme',
      says: 'createPostgresBackend; nothing set: one job at a time, finished jobs are kept',
      readme: true,
    },
  ],
  install: ({ databaseUrl }) => withClient(databaseUrl, async (client) => void (await runMigrations(client))),
  remains: ({ databaseUrl }) =>
    anyRow(
      databaseUrl,
      ['waiting', 'waiting-children', 'active', 'delayed', 'failed']
        .map((state) => `(select 1 from bullmq.job where queue = '${name}' and state = '${state}' limit 1)`)
        .join(' union all '),
    ),
  startWorker,
  openProducer: (place, _wish, { calls }) => {
    const pool = poolOf(place, calls + 1);
    const queue = new Queue<Payload>(name, { connection: pool as unknown as PgPool });
    return Promise.resolve({
      one: async ({ payload }) => void (await queue.add(name, payload)),
      many: async (jobs) => void (await queue.addBulk(jobs.map(({ payload }) => ({ name, data: payload })))),
      close: async () => {
        await queue.close();
        await pool.end();
      },
    });
  },
  openFlowStarter: (place, _wish, { calls }) => {
    const pool = poolOf(place, calls + 1);
    const producer = new FlowProducer({ connection: pool as unknown as PgPool });
    return Promise.resolve({
      start: async (steps) => void (await producer.add(treeOf(steps, name))),
      close: async () => {
        await producer.close();
        await pool.end();
      },
    });
  },
};

/** Returns a pool, the only connection BullMQ accepts in an ES module; its search_path is BullMQ's schema. */
function poolOf({ databaseUrl }: Place, max: number): pg.Pool {
  return new pg.Pool({ connectionString: databaseUrl, max, options: '-c search_path=bullmq' });
}

async function startWorker(place: Place, wish: Wish, { handle }: Runner): Promise<Stoppable> {
  const asked = wish.concurrency ?? (wish.setting === 'best' ? concurrency : undefined);
  // one more connection, for LISTEN
  const pool = poolOf(place, (asked ?? 9) + 1);
  const worker = new Worker<Payload>(
    name,
    async ({ data }) => {
      await handle(data);
    },
    {
      connection: pool as unknown as PgPool,
      ...(asked === undefined ? {} : { concurrency: asked }),
      ...(wish.setting === 'best' ? { removeOnComplete: { count: 0 }, removeOnFail: { count: 0 } } : {}),
    },
  );
  worker.on('error', (error) => process.stderr.write(`bullmq: ${error.message}\n`));
  await worker.waitUntilReady();
  return {
    stop: async () => {
      await worker.close();
      await pool.end();
    },
  };
}
