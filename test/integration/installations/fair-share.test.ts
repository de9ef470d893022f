// A fair order over two installations, with real schedulers and workers.
import { setTimeout as delay } from 'node:timers/promises';
import type { PgQueueEvent } from '@pgqueue/core';
import { defineTask, implement, policy } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import type { SharedFairShareOptions } from '@pgqueue/router';
import { sharedFairShare } from '@pgqueue/router';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { nth, useRunning, useSeveral } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const { several } = useSeveral(2);
const { running } = useRunning(several);

const tenantOf = (key: string): string => key.split('/')[0] ?? '';

/** Starts a scheduler of an installation, and a worker with two slots; returns the tenants that it has served. */
async function serve(
  site: number,
  observe: (event: PgQueueEvent) => void,
  other: Partial<SharedFairShareOptions> = {},
): Promise<readonly string[]> {
  const { name, connectionString } = nth(several.installations, site);
  const order = sharedFairShare({
    installations: several.installations,
    self: name,
    home: 'two',
    halfLifeMs: 2_000,
    charge: 'time',
    levels: [{ name: 'tenant', by: ({ key }) => tenantOf(key) }],
    ...other,
  });
  const served: string[] = [];
  const handler = implement(task, async (_, { job }) => {
    served.push(tenantOf(job.key));
    await delay(20);
  });
  const roles = [
    createScheduler({
      connectionString,
      policy: policy({ order }),
      policyBudgetMs: 10_000, // no plan is cut off on a busy machine
      observe,
      leaseMs: 2_000,
    }),
    createWorker({ connectionString, tasks: [handler], concurrency: 2 }),
  ];
  for (const role of roles) {
    running.push(role);
    await role.start();
  }
  // connections of the order end by themselves
  running.push({ stop: () => delay(5_000) });
  return served;
}

async function enqueue(site: number, tenant: string, count: number): Promise<void> {
  const producer = createProducer({ connectionString: nth(several.installations, site).connectionString });
  await producer.enqueueMany(
    Array.from({ length: count }, (_, n) => task.job({ n }, { key: `${tenant}/${n % 10}` })),
  );
  await producer.close();
}

/** Part of the last hundred jobs that were of a tenant. */
const partOf = (served: readonly string[], tenant: string): number =>
  served.slice(-100).filter((one) => one === tenant).length / 100;

test('a tenant that one installation serves gets less of the other, and its half again when that is over', async () => {
  await enqueue(0, 'acme', 600);
  await enqueue(1, 'acme', 9_000);
  await enqueue(1, 'globex', 9_000);
  const first = await serve(0, () => {});
  const second = await serve(1, () => {});
  await expect.poll(() => first.length > 100 && partOf(second, 'globex')).toBeGreaterThan(0.8);
  const [use] = await nth(several.databases, 1).query<{ readonly uses: Record<string, readonly number[]> }>(
    'select uses from pgqueue.shared_use where installation = 1',
    [],
  );
  expect(Object.keys(use?.uses ?? {})).toEqual(['["default","acme"]']);
  await expect.poll(() => first.length).toBe(600);
  await expect.poll(() => partOf(second, 'globex')).toBeLessThan(0.6);
});

test('without its home the order goes on, and tells why it does not hear of the others', async () => {
  const told: string[] = [];
  await enqueue(0, 'acme', 50);
  const installations = several.installations.map((one) =>
    one.number === 2 ? { ...one, connectionString: 'postgres://postgres@127.0.0.1:1/nowhere' } : one,
  );
  const served = await serve(
    0,
    (event) => event.type === 'policy.prepare_failed' && told.push(String(event.error)),
    { installations },
  );
  await expect.poll(() => served.length).toBe(50);
  await expect.poll(() => told.join()).toContain('installation two (number 2): ');
});

test('one that leads another installation than it says tells nothing', async () => {
  const told: string[] = [];
  await serve(0, (event) => event.type === 'policy.prepare_failed' && told.push(String(event.error)), {
    self: 'two',
  });
  await expect.poll(() => told.join()).toContain('does not lead installation two');
  expect(await nth(several.databases, 1).query('select from pgqueue.shared_use', [])).toHaveLength(0);
});
