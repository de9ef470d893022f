// A worker process of the whole system; its handlers write down that they began and ended.
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { actorName, actorOptions, now, run, said, telling, url } from '../../actors/messages.ts';
import type { SystemConfig, Witnessed } from './config.ts';
import { long, short } from './tasks.ts';

const { folder, heartbeatMs, lostAfterMs, listen } = actorOptions as SystemConfig;
const file = join(folder, `${actorName}.witnessed`);

function witness(what: 'start' | 'end', job: { readonly id: string; readonly task: string }): void {
  const line: Witnessed = { what, id: job.id, task: job.task, node: actorName, atMs: now() };
  appendFileSync(file, `${JSON.stringify(line)}\n`);
}

const worker = createWorker({
  connectionString: url,
  node: actorName,
  concurrency: 10,
  heartbeatMs,
  lostAfterMs,
  listen,
  drainMs: 2_000,
  tasks: [
    implement(short, async ({ ms, gate }, { job }) => {
      witness('start', job);
      await delay(ms);
      const isOpen = (): boolean => gate === undefined || existsSync(gate);
      while (!isOpen()) await delay(10);
      witness('end', job);
    }),
    implement(long, async ({ ms, leaseMs }, { job, signal, extend }) => {
      witness('start', job);
      const endsAt = performance.now() + ms;
      const keep = setInterval(() => {
        // while the database is away, the lease that there is must last
        extend(leaseMs).catch((error: unknown) => said({ type: 'extend', error: String(error) }));
      }, leaseMs / 3);
      try {
        await delay(endsAt - performance.now(), undefined, { signal });
      } finally {
        clearInterval(keep);
      }
      witness('end', job);
    }),
  ],
  observe: telling(
    'job.stale',
    'job.timeout',
    'node.fenced',
    'node.ended',
    'node.registered',
    'database.error',
  ),
});
await run(worker);
