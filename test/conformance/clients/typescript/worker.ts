// The worker of @pgqueue/worker, as the contract of the suite asks for it.
import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { JobContext } from '@pgqueue/core';
import { cancelled, defineTask, fanOut, giveUp, implement, retryAfter, snooze } from '@pgqueue/core';
import { createWorker, stopOnSignals } from '@pgqueue/worker';
import { z } from 'zod';

const given = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: the suite sets it`);
  return value;
};

type Context = Pick<JobContext, 'job' | 'signal'>;

function note({ job }: Context, what: string, data?: unknown): void {
  appendFileSync(given('CONFORMANCE_EFFECTS'), `${JSON.stringify({ job: job.id, what, data })}\n`);
}

async function gateOpens(gate: string, { signal }: Context): Promise<void> {
  while (!existsSync(gate)) await delay(50, undefined, { signal });
}

const timeout = '60s';
const name = z.string();
const ack = defineTask({ name: 'ack', timeout, payload: z.object({ result: z.unknown().optional() }) });
const failing = z.object({ message: name, times: z.number(), result: z.unknown().optional() });
const gated = z.object({ gate: name });

const single = [
  implement(ack, ({ result }, context) => {
    note(context, 'started');
    return result;
  }),
  implement(
    defineTask({ name: 'nack', timeout, payload: failing }),
    ({ message, times, result }, context) => {
      note(context, 'started');
      if (context.job.tries < times) throw new Error(message);
      return result;
    },
  ),
  implement(
    defineTask({ name: 'retry-after', timeout, payload: failing.extend({ ms: z.number() }) }),
    ({ message, times, ms }, context) => {
      note(context, 'started');
      if (context.job.tries < times) return retryAfter(ms, new Error(message));
      return null;
    },
  ),
  implement(
    defineTask({ name: 'give-up', timeout, payload: z.object({ message: name }) }),
    ({ message }, context) => {
      note(context, 'started');
      return giveUp(new Error(message));
    },
  ),
  implement(
    defineTask({ name: 'snooze', timeout, payload: z.object({ ms: z.number() }) }),
    ({ ms }, context) => {
      note(context, 'started');
      return snooze(ms);
    },
  ),
];

const waiting = [
  implement(
    defineTask({ name: 'sleep', timeout, payload: z.object({ ms: z.number() }) }),
    async ({ ms }, context) => {
      note(context, 'started');
      await delay(ms, undefined, context);
      note(context, 'ended');
    },
  ),
  implement(defineTask({ name: 'hold', timeout, payload: gated }), async ({ gate }, context) => {
    note(context, 'started');
    await gateOpens(gate, context);
    note(context, 'ended');
  }),
  implement(
    defineTask({ name: 'extend', timeout, payload: gated.extend({ extendMs: z.number() }) }),
    async ({ gate, extendMs }, context) => {
      note(context, 'started');
      await context.extend(extendMs);
      note(context, 'extended');
      await gateOpens(gate, context);
      note(context, 'ended');
    },
  ),
  implement(
    defineTask({ name: 'wait-cancelled', timeout, payload: z.object({}) }),
    async (_payload, context) => {
      note(context, 'started');
      await gateOpens('/nowhere', context).catch(() => {});
      const { code } = context.signal.reason as { readonly code: string };
      if (code !== 'cancelled') throw new Error(code);
      note(context, 'cancelled');
      return cancelled();
    },
  ),
  implement(
    defineTask({ name: 'progress', timeout, payload: gated.extend({ value: z.unknown() }) }),
    async ({ gate, value }, context) => {
      note(context, 'started');
      await context.progress(value);
      await gateOpens(gate, context);
      note(context, 'ended');
    },
  ),
];

const keeping = [
  implement(
    defineTask({ name: 'checkpoint', timeout, payload: z.object({ save: z.unknown() }) }),
    async ({ save }, context) => {
      note(context, 'started');
      const { checkpoint } = context.job;
      if (checkpoint !== null) return note(context, 'resumed', checkpoint);
      await context.checkpoint(save);
      throw new Error('the next attempt resumes');
    },
  ),
  implement(defineTask({ name: 'poison', timeout, payload: z.object({}) }), async (_payload, context) => {
    note(context, 'started');
    process.kill(process.pid, 'SIGKILL');
    await delay(60_000);
  }),
  implement(
    defineTask({
      name: 'transaction',
      timeout,
      payload: z.object({ value: z.number(), times: z.number() }),
    }),
    async ({ value, times }, context) => {
      note(context, 'started');
      await context.transaction(async (client) => {
        await client.query('insert into conformance.written values ($1, $2)', [context.job.id, value]);
        if (context.job.tries < times) throw new Error('rolled back');
      });
    },
  ),
];

const item = defineTask({ name: 'item', payload: z.object({}), result: z.object({ n: z.number() }) });
const inFlows = [
  implement(
    defineTask({ name: 'needs', timeout, payload: z.object({}), needs: { items: item } }),
    async (_payload, context) => {
      note(context, 'started');
      let [count, sum, failed] = [0, 0, 0];
      for await (const { result } of context.needs.items) {
        count += 1;
        sum += result.n;
      }
      for await (const { job } of context.needs.items.failures) failed += Number(job !== '');
      return { count, sum, failed };
    },
  ),
  implement(
    defineTask({ name: 'fan-out', timeout, payload: z.object({ children: z.number() }) }),
    ({ children }, context) => {
      note(context, 'started');
      const { queue } = context.job;
      const jobs = Array.from({ length: children }, (_, n) => ack.job({ result: n }, { queue }));
      return fanOut(jobs, { children });
    },
  ),
];

const worker = createWorker({
  connectionString: given('PGQUEUE_DATABASE_URL'),
  schema: given('PGQUEUE_SCHEMA'),
  node: given('PGQUEUE_NODE'),
  pool: given('PGQUEUE_POOL'),
  concurrency: Number(given('PGQUEUE_SLOTS')),
  heartbeatMs: Number(given('PGQUEUE_HEARTBEAT_MS')),
  lostAfterMs: Number(given('PGQUEUE_LOST_AFTER_MS')),
  drainMs: Number(given('PGQUEUE_DRAIN_MS')),
  listen: given('PGQUEUE_LISTEN') === 'true',
  tasks: [...single, ...waiting, ...keeping, ...inFlows],
});
stopOnSignals(worker);
await worker.start();
