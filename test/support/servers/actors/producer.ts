// A producer process: enqueues at a steady rate, and repeats each batch, under the same ids, until it is acknowledged.
import { randomBytes } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { uuidV7 } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { actorName, actorOptions, hear, now, said, url } from '../../actors/messages.ts';
import type { Acknowledged, SystemConfig } from './config.ts';
import { short } from './tasks.ts';

const { folder, perSecond } = actorOptions as SystemConfig;
const file = join(folder, `${actorName}.acknowledged`);
const producer = createProducer({ connectionString: url });
const finished = new AbortController();
const batchMs = 100;

async function enqueue(): Promise<void> {
  const askedMs = now();
  const ids = Array.from({ length: Math.ceil((perSecond * batchMs) / 1_000) }, () =>
    uuidV7(Date.now(), randomBytes(10)),
  );
  const jobs = ids.map((id, n) => short.job({ ms: n % 20, tenant: `tenant-${n % 5}` }, { id }));
  for (;;) {
    try {
      await producer.enqueueMany(jobs);
      break;
    } catch (error) {
      said({ type: 'refused', error: String(error) });
      if (finished.signal.aborted) return; // never acknowledged: whether they are there, nobody was told
      await delay(100);
    }
  }
  const lines = ids.map((id) => JSON.stringify({ id, askedMs, atMs: now() } satisfies Acknowledged));
  appendFileSync(file, `${lines.join('\n')}\n`);
}

async function produce(): Promise<void> {
  while (!finished.signal.aborted) {
    await enqueue();
    await delay(batchMs);
  }
  said({ type: 'finished' });
}

const producing = produce();
hear('finish', () => {
  finished.abort();
  return producing;
});
hear('stop', async () => {
  finished.abort();
  await producing;
  await producer.close();
});
said({ type: 'ready' });
