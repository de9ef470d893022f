import { cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

const longestMs = 30_000;
const sampleMs = 300;

/**
 * Resolves when most of the machine stands idle, or after half a minute: what measures time waits until whatever ran before it, an
 * autovacuum or processes that end, is over.
 */
export async function quiet(idleShare = 0.7): Promise<void> {
  const deadline = performance.now() + longestMs;
  while (performance.now() < deadline && (await idle()) < idleShare) await delay(0);
}

async function idle(): Promise<number> {
  const before = times();
  await delay(sampleMs);
  const after = times();
  return (after.idle - before.idle) / Math.max(1, after.all - before.all);
}

function times(): { readonly idle: number; readonly all: number } {
  let [idleMs, allMs] = [0, 0];
  for (const { times: own } of cpus()) {
    idleMs += own.idle;
    allMs += own.idle + own.user + own.sys + own.nice + own.irq;
  }
  return { idle: idleMs, all: allMs };
}
