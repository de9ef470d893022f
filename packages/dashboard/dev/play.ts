import { setTimeout as delay } from 'node:timers/promises';
import { defineTask, giveUp, implement } from '@pgqueue/core';
import type { TaskHandler } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import type { Producer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';

/** A small company's queue, for ever. */
export interface Play {
  readonly stop: () => Promise<void>;
}

interface Settings {
  readonly connectionString: string;
  readonly schema: string;
}

const any = {
  '~standard': {
    version: 1,
    vendor: 'pgqueue',
    validate: (value: unknown): { readonly value: unknown } => ({ value }),
  },
} as const;

const email = defineTask({ name: 'send-email', payload: any, queue: 'mail' });
const render = defineTask({ name: 'render-report', payload: any, queue: 'reports', timeout: '2m' });
const charge = defineTask({ name: 'charge-card', payload: any, queue: 'billing' });
const unserved = defineTask({ name: 'transcode-video', payload: any, queue: 'video' });

const tenants = ['acme', 'globex', 'initech', 'umbrella', 'hooli', ''] as const;

function handlers(): readonly TaskHandler[] {
  return [
    implement(email, async (_, { signal }) => {
      await delay(20 + Math.random() * 300, undefined, { signal });
      if (Math.random() < 0.05)
        throw new Error(`SMTP 451: mailbox user-${Math.floor(Math.random() * 999)} is busy`);
      return { accepted: true };
    }),
    implement(render, async (_, { signal, progress }) => {
      for (let step = 1; step <= 20; step += 1) {
        await delay(50 + Math.random() * 400, undefined, { signal });
        await progress({ page: step, of: 20 });
      }
      return { pages: 20 };
    }),
    implement(charge, async (payload, { signal }) => {
      await delay(10 + Math.random() * 80, undefined, { signal });
      const { amount = 0 } = payload as { readonly amount?: number };
      if (Math.random() < 0.02) return giveUp(new TypeError(`card "4000-${amount}" was declined`));
      if (Math.random() < 0.1)
        throw new Error(`connect ECONNREFUSED 10.0.0.${Math.floor(Math.random() * 9)}:443`);
      return { charged: amount };
    }),
  ];
}

export async function startPlay(settings: Settings): Promise<Play> {
  const operator = createOperator(settings);
  await operator.queues.set('mail', { concurrency: 12, weight: 2 });
  await operator.queues.set('reports', { keyConcurrency: 1 });
  await operator.queues.set('billing', { rate: { perSecond: 8, burst: 16 } });
  await operator.queues.pause('archive');
  await operator.schedules.set({
    name: 'nightly-report',
    cron: '0 3 * * *',
    timezone: 'Europe/Berlin',
    task: 'render-report',
    payload: { kind: 'nightly' },
    options: { queue: 'reports' },
  });
  await operator.schedules.set({
    name: 'minutely',
    cron: '* * * * *',
    task: 'send-email',
    options: { queue: 'mail', key: 'cron' },
  });
  const scheduler = createScheduler(settings);
  const nodes = ['blue', 'green', 'red'].map((name) =>
    createWorker({ ...settings, node: `node-${name}`, tasks: handlers(), concurrency: 8 }),
  );
  const producer = createProducer(settings);
  await Promise.all([scheduler, ...nodes].map((part) => part.start()));
  const stopping = new AbortController();
  const enqueuing = enqueue(producer, stopping.signal);
  return {
    stop: async () => {
      stopping.abort();
      await enqueuing;
      await Promise.all(nodes.map((node) => node.stop()));
      await scheduler.stop();
      await producer.close();
      await operator.close();
    },
  };
}

/** One tenant floods now and then. */
async function enqueue(producer: Producer, signal: AbortSignal): Promise<void> {
  for (let round = 0; !signal.aborted; round += 1) {
    const flood = round % 60 === 5 ? 400 : 0;
    const jobs = [
      ...Array.from({ length: 10 + flood }, (_, n) =>
        email.job(
          { to: `user-${round}-${n}@example.com`, customer: { id: n } },
          { key: flood > 0 && n > 10 ? 'acme' : pick(tenants), priority: n % 3, trace: trace() },
        ),
      ),
      ...Array.from({ length: 2 }, () => charge.job({ amount: round }, { key: pick(tenants) })),
      ...(round % 4 === 0 ? [render.job({ report: round }, { key: pick(tenants) })] : []),
      ...(round % 30 === 0 ? [unserved.job({ file: `${round}.mp4` }, { key: 'hooli' })] : []),
      ...(round % 10 === 0 ? [email.job({ later: true }, { key: pick(tenants), delay: '2m' })] : []),
      ...(round % 20 === 0 ? [email.job({ old: true }, { queue: 'archive', key: pick(tenants) })] : []),
    ];
    await producer.enqueueMany(jobs).catch(() => {});
    await delay(1_000, undefined, { signal }).catch(() => {});
  }
}

function pick<Item>(items: readonly [Item, ...Item[]]): Item {
  return items[Math.floor(Math.random() ** 1.6 * items.length)] ?? items[0];
}

function trace(): { readonly traceparent: string } {
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => Math.floor(Math.random() * 16).toString(16)).join('');
  return { traceparent: `00-${hex(32)}-${hex(16)}-01` };
}
