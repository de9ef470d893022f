import { FlowProducer, Queue, Worker } from 'bullmq';
import { treeOf } from './bullmq-tree.ts';
import type { BenchProducer, Peer, Place, Runner, Stoppable, Wish } from './peer.ts';
import type { Payload } from '../load.ts';

const name = 'bench';
const concurrency = 100;

export const peer: Peer = {
  name: 'bullmq',
  store: 'redis',
  packageName: 'bullmq',
  settings: [
    {
      name: 'best',
      says: `Redis with appendfsync everysec; concurrency ${concurrency}, removeOnComplete and removeOnFail { count: 0 }`,
    },
    {
      name: 'readme',
      says: 'Redis with appendfsync everysec; nothing set: one job at a time, finished jobs are kept',
      readme: true,
    },
  ],
  install: () => Promise.resolve(),
  remains: async (place) => {
    const queue = new Queue(name, { connection: connectionOf(place) });
    try {
      return (
        (await queue.getJobCountByTypes(
          'wait',
          'waiting-children',
          'active',
          'delayed',
          'prioritized',
          'failed',
        )) > 0
      );
    } finally {
      await queue.close();
    }
  },
  startWorker,
  openProducer: (place) => {
    const queue = new Queue(name, { connection: connectionOf(place) });
    const producer: BenchProducer = {
      one: async ({ payload }) => void (await queue.add(name, payload)),
      many: async (jobs) => void (await queue.addBulk(jobs.map(({ payload }) => ({ name, data: payload })))),
      close: () => queue.close(),
    };
    return Promise.resolve(producer);
  },
  openFlowStarter: (place) => {
    const producer = new FlowProducer({ connection: connectionOf(place) });
    return Promise.resolve({
      start: async (steps) => void (await producer.add(treeOf(steps, name))),
      close: () => producer.close(),
    });
  },
};

function connectionOf({ redisUrl }: Place): { readonly host: string; readonly port: number } {
  if (redisUrl === undefined) throw new Error('bullmq needs a Redis');
  const { hostname, port } = new URL(redisUrl);
  return { host: hostname, port: Number(port) };
}

async function startWorker(place: Place, wish: Wish, { handle }: Runner): Promise<Stoppable> {
  const asked = wish.concurrency ?? (wish.setting === 'best' ? concurrency : undefined);
  const worker = new Worker<Payload>(
    name,
    async ({ data }) => {
      await handle(data);
    },
    {
      connection: connectionOf(place),
      ...(asked === undefined ? {} : { concurrency: asked }),
      ...(wish.setting === 'best' ? { removeOnComplete: { count: 0 }, removeOnFail: { count: 0 } } : {}),
    },
  );
  worker.on('error', (error) => process.stderr.write(`bullmq: ${error.message}\n`));
  await worker.waitUntilReady();
  return { stop: () => worker.close() };
}
