// A worker process of the bench, loaded after tap.ts and leave.ts.
import { setTimeout as delay } from 'node:timers/promises';
import type { JobContext, TaskHandler } from '@pgqueue/core';
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { actorName as node, run, url } from '../../support/actors/messages.ts';
import { leaseMs } from '../workload.ts';
import { config, openOwnHistory } from './config.ts';
import { tokens } from './tap.ts';
import { effect, long, medium, poison, short } from './tasks.ts';

const write = openOwnHistory();

interface Payload {
  readonly ms: number;
  readonly fails: number;
}

/** Records the start and the end of a handler, and makes it fail as its job says. */
function recorded(
  work: (payload: Payload, context: JobContext) => Promise<void>,
): (payload: Payload, context: JobContext) => Promise<void> {
  return async (payload, context) => {
    const { id, tries } = context.job;
    const token = tokens.get(id) ?? '';
    write({ type: 'start', id, token, node });
    try {
      await work(payload, context);
      if (tries < payload.fails) throw new Error(`fails ${payload.fails} times`);
    } finally {
      write({ type: 'end', id, token });
    }
  };
}

const wait = (ms: number, { signal }: JobContext): Promise<void> => delay(ms, undefined, { signal });

async function takeLong({ ms }: Payload, context: JobContext): Promise<void> {
  const until = performance.now() + ms;
  while (performance.now() < until) {
    await wait(Math.min(leaseMs * 0.35, Math.max(1, until - performance.now())), context);
    if (!(await context.extend(`${leaseMs}ms`))) return;
  }
}

async function takeEffect({ ms, fails }: Payload, context: JobContext): Promise<void> {
  const { id, tries } = context.job;
  await wait(ms, context);
  if (tries < fails) return; // the error that follows must leave no effect
  await context.transaction((client) => client.query('insert into chaos.witness (job) values ($1)', [id]));
}

const handlers: readonly TaskHandler[] = [
  implement(
    short,
    recorded(({ ms }, context) => wait(ms, context)),
  ),
  implement(
    medium,
    recorded(({ ms }, context) => wait(ms, context)),
  ),
  implement(long, recorded(takeLong)),
  implement(effect, recorded(takeEffect)),
  implement(
    poison,
    recorded(() => {
      process.kill(process.pid, 'SIGKILL');
      return new Promise(() => {});
    }),
  ),
];

const worker = createWorker({
  connectionString: url,
  node,
  concurrency: config.concurrency,
  heartbeatMs: config.heartbeatMs,
  lostAfterMs: config.lostAfterMs,
  queryTimeoutMs: 5_000,
  listen: config.listen,
  tasks: handlers,
  connectionsMax: 6,
});

/** Faults that a living process makes itself, when the nemesis asks for them. */
const acts: Readonly<Record<string, (ms: number) => void>> = {
  block: (ms) => {
    for (const until = performance.now() + ms; performance.now() < until;) Math.sqrt(until);
  },
  hog: () => {
    const kept: unknown[][] = [];
    for (;;) kept.push(Array.from({ length: 100_000 }, (_, index) => ({ index })));
  },
};

process.on('message', (message) => {
  const [word = '', ms] = String(message).split(' ');
  acts[word]?.(Number(ms));
});
await run(worker, { drainMs: 2_000 });
