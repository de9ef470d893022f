// Producers of the proof: each key has its jobs enqueued one after another, each until it is known to be there.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { PgQueueError } from '@pgqueue/core';
import type { Router } from '@pgqueue/router';
import { queueOf } from './actors/limits.ts';
import { step } from './actors/tasks.ts';

/** A job that is known to be enqueued. */
export interface Sent {
  readonly id: string;
  readonly key: string;
  /** Its place among the jobs of its key, from 0. */
  readonly n: number;
  /** Due later than enqueued, so it has no place in the order of its key. */
  readonly delayed: boolean;
}

export interface Load {
  readonly sent: readonly Sent[];
  /** Enqueues that were tried again, by their code. */
  readonly again: ReadonlyMap<string, number>;
  /** Keys that are enqueued to at present. */
  readonly busy: () => readonly string[];
  readonly stop: () => Promise<void>;
}

export interface LoadOptions {
  readonly router: Router;
  readonly keys: readonly string[];
  /** Jobs a second of all keys. */
  readonly perSecond: number;
  readonly random: () => number;
  /** Number of keys that are enqueued to at a time. */
  readonly writers: number;
}

const triesMax = 2_000;
/** Mean number of jobs that a writer enqueues to a key in a row. */
const meanBurst = 6.4;

export function startLoad({ router, keys, perSecond, random, writers }: LoadOptions): Load {
  const sent: Sent[] = [];
  const again = new Map<string, number>();
  const next = new Map(keys.map((key) => [key, 0]));
  const free = new Set(keys);
  const stopping = new AbortController();

  /** Tries again under the same id until the answer is known. */
  const send = async (job: Sent): Promise<void> => {
    const queue = queueOf(job.key);
    const longest = queue === 'calls' ? 400 : 100;
    const payload = { n: job.n, ms: Math.floor(random() ** 2 * longest), fails: random() < 0.05 ? 1 : 0 };
    const options = {
      id: job.id,
      key: job.key,
      queue: queueOf(job.key),
      ...(job.delayed ? { delay: '300ms' as const } : {}),
    };
    for (let tries = 1; tries <= triesMax; tries += 1) {
      try {
        await router.producer.enqueue(step, payload, options);
        return;
      } catch (error) {
        const code = error instanceof PgQueueError ? error.code : String(error);
        again.set(code, (again.get(code) ?? 0) + 1);
        if (error instanceof PgQueueError && ['invalid_job', 'configuration', 'duplicate_id'].includes(code))
          throw error;
        await delay(100);
      }
    }
    throw new Error(`job ${job.id} of ${job.key} was never enqueued`);
  };

  const write = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const waiting = [...free];
      const key = waiting[Math.floor(random() * waiting.length)];
      if (key !== undefined) {
        free.delete(key);
        const burst = random() < 0.1 ? 10 + Math.floor(random() * 90) : 1;
        for (let count = 0; count < burst && !stopping.signal.aborted; count += 1) {
          const n = next.get(key) ?? 0;
          const job = { id: randomUUID(), key, n, delayed: random() < 0.05 };
          next.set(key, n + 1);
          await send(job);
          sent.push(job);
        }
        free.add(key);
      }
      await delay((1_000 / perSecond) * writers * 2 * random() * meanBurst);
    }
  };

  const running = Promise.all(Array.from({ length: writers }, () => write()));
  running.catch(() => {}); // `stop` tells
  return {
    sent,
    again,
    busy: () => keys.filter((key) => !free.has(key)),
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}
