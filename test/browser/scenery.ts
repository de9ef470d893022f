import { setTimeout as delay } from 'node:timers/promises';
import { concurrency, fairShare, policy } from '@pgqueue/core';
import type { DashboardServer } from '@pgqueue/dashboard';
import { createDashboard, serveDashboard } from '@pgqueue/dashboard';
import type { Operator } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { ensureWeb } from '../../scripts/build-web.mjs';
import type { Actor } from '../support/actors.ts';
import { startActor } from '../support/actors.ts';
import { deliver } from './scenery-tasks.ts';

/** Four shops, of which one floods; three worker nodes, of which one is killed. */
export interface Scenery {
  readonly server: DashboardServer;
  readonly operator: Operator;
  readonly workers: readonly Actor[];
  /** Enqueues so many deliveries of a shop at once; resolves to the last one's id. */
  readonly flood: (shop: string, jobs: number) => Promise<string>;
  readonly close: () => Promise<void>;
}

const shops = ['acme', 'globex', 'initech', 'umbrella'] as const;
const pauseMs = 2_500;
/** How long a delivery of each shop takes: three of them want a little less than a fair share of 24 slots, acme a third less. */
const deliveryMs = [3_400, 4_600, 4_700, 4_800] as const;

export async function openScenery(connectionString: string): Promise<Scenery> {
  await ensureWeb();
  await pretendAnHour(connectionString);
  const operator = createOperator({ connectionString });
  const producer = createProducer({ connectionString });
  const scheduler = createScheduler({
    connectionString,
    name: 'scheduler-1',
    policyBudgetMs: 2_000,
    policy: policy({
      name: 'fair-shops',
      gates: [concurrency({ name: 'shop', by: ({ key }) => key, limit: 12 })],
      order: fairShare({ charge: 'time' }),
    }),
  });
  await scheduler.start();
  const workers = await Promise.all(
    ['worker-1', 'worker-2', 'worker-3'].map((name) =>
      startActor('worker', {
        url: connectionString,
        name,
        file: new URL('scenery-worker.ts', import.meta.url),
      }),
    ),
  );
  const dashboard = createDashboard({ connectionString });
  const server = await serveDashboard(dashboard, { port: 0 });
  const trickle = startTrickle(producer);
  return {
    server,
    operator,
    workers,
    flood: async (shop, jobs) => {
      const made = await producer.enqueueMany(
        Array.from({ length: jobs }, (_, order) =>
          deliver.job({ shop, order, ms: deliveryMs[0], fails: false }),
        ),
      );
      return made.at(-1)?.id ?? '';
    },
    close: async () => {
      await trickle.stop();
      await server.close();
      await Promise.all([...workers.map((worker) => worker.stop()), scheduler.stop()]);
      await Promise.all([producer.close(), operator.close()]);
    },
  };
}

/** Work of every day: each shop a few deliveries a second, one in fifty of which fails. */
function startTrickle(producer: Producer): { readonly stop: () => Promise<void> } {
  const ended = new AbortController();
  const run = async (): Promise<void> => {
    for (let order = 0; !ended.signal.aborted; order += 1) {
      for (const [index, shop] of shops.entries()) {
        const fails = order % 50 === index * 7;
        await producer.enqueueMany(
          [1, 2, 3].map((part) =>
            deliver.job({ shop, order: order * 10 + part, ms: deliveryMs[index] ?? 0, fails }),
          ),
        );
      }
      await delay(pauseMs);
    }
  };
  const running = run();
  return {
    stop: async () => {
      ended.abort();
      await running;
    },
  };
}

/** Nobody wants to wait an hour for a picture of one: history that could have been, up to a moment ago. */
async function pretendAnHour(connectionString: string): Promise<void> {
  const database = openDatabase({ connectionString });
  try {
    await database.query(
      `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished,
         payload_version, node, attributes, payload)
       select pgqueue.uuid_v7(), 'webhooks', 'deliver-webhook', ($1::text[])[1 + n % 4], 0, 'done', (n % 37 = 0)::int, 0,
              ended - make_interval(secs => took + 0.05 + 0.4 * noise * noise), ended - make_interval(secs => took), ended,
              1, 'worker-' || 1 + n % 3, '{}', '{}'
       from (select n, random() as noise, ($2::float8[])[1 + n % 4] / 1000 as took,
                    now() - interval '59 minutes' + make_interval(secs => 58.8 * 60 * (n / 15600.0 + 0.008 * sin(n / 1300.0))) as ended
             from generate_series(0, 15599) n) made`,
      [shops, deliveryMs],
    );
  } finally {
    await database.close();
  }
}
