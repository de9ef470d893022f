// Several installations with real schedulers and workers that share limits, and a record of everything that ran.
import type { Policy } from '@pgqueue/core';
import { defineTask, implement } from '@pgqueue/core';
import type { Installation } from '@pgqueue/router';
import type { Scheduler, SchedulerOptions } from '@pgqueue/scheduler';
import { createScheduler } from '@pgqueue/scheduler';
import type { Worker } from '@pgqueue/worker';
import { createWorker } from '@pgqueue/worker';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { RecordedItem } from '../../proofs/recorder.ts';
import { record, recordedItems } from '../../proofs/recorder.ts';
import { worstWindow } from '../../proofs/checks.ts';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import type { CutProxy } from '../../support/cut-proxy.ts';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { sharedPolicy } from '../../support/modules/shared-policy.ts';
import type { Several } from '../installations/support.ts';
import { createSeveral, nth } from '../installations/support.ts';

export const rate = { perSecond: 100, burst: 40 };
export const concurrency = 50;

/** Installations `one`, `two` and so on; the last one is the home of the limits, behind a proxy for all others. */
export interface Sites extends Several {
  readonly proxy: CutProxy;
  readonly home: Installation;
  /** Policy of a site; `other`: options that differ. */
  readonly policy: (site: number, other?: Partial<PolicyGiven>) => Policy;
  /** Starts a scheduler in this process. */
  readonly schedule: (site: number, options?: Partial<SchedulerOptions>) => Promise<Scheduler>;
  /** Starts a scheduler in a process of its own. */
  readonly spawn: (site: number, name: string) => Promise<Actor>;
  readonly work: (site: number, concurrency: number) => Promise<Worker>;
  readonly items: () => Promise<readonly RecordedItem[]>;
}

type PolicyGiven = Parameters<typeof sharedPolicy>[0];

const work = defineTask({ name: 'work', payload: z.object({ ms: z.number() }).loose() });

export async function createSites(count: number, sizes = { concurrency, rate }): Promise<Sites> {
  const several = await createSeveral(count);
  const home = nth(several.installations, count - 1);
  const proxy = await startCutProxy(home.connectionString);
  const seen = (site: number): readonly Installation[] =>
    several.installations.map((one) =>
      one === home && site !== count - 1 ? { ...one, connectionString: proxy.url } : one,
    );
  const given = (site: number): PolicyGiven => ({
    installations: seen(site),
    self: nth(several.installations, site).name,
    home: home.name,
    ...sizes,
  });
  const roles: { readonly stop: () => Promise<void> }[] = [];
  const started = async <Role extends { readonly stop: () => Promise<void> }>(role: Role): Promise<Role> => {
    roles.push(role);
    if ('start' in role) await (role as unknown as { start: () => Promise<void> }).start();
    return role;
  };
  for (const database of several.databases) await record(database);
  return {
    ...several,
    proxy,
    home,
    policy: (site, other) => sharedPolicy({ ...given(site), ...other }),
    schedule: (site, options) =>
      started(
        createScheduler({
          connectionString: nth(several.installations, site).connectionString,
          leaseMs: 2_000,
          policy: sharedPolicy(given(site)),
          ...options,
        }),
      ),
    spawn: async (site, name) =>
      started(
        await startActor('scheduler', {
          url: nth(several.installations, site).connectionString,
          name,
          env: { PGQUEUE_TEST_SHARED: JSON.stringify(given(site)) },
          options: {
            policy: 'shared',
            policies: new URL('../../support/modules/shared-policy.ts', import.meta.url).href,
          },
        }),
      ),
    work: (site, slots) =>
      started(
        createWorker({
          connectionString: nth(several.installations, site).connectionString,
          tasks: [implement(work, ({ ms }) => delay(ms))],
          concurrency: slots,
        }),
      ),
    items: async () => (await Promise.all(several.databases.map(recordedItems))).flat(),
    close: async () => {
      proxy.hold(undefined);
      await Promise.all(roles.map((role) => role.stop()));
      await proxy.close();
      // connections of the gates end by themselves
      await delay(3_500);
      await several.close();
    },
  };
}

/** Most jobs in flight at any moment. */
export function mostInFlight(items: readonly RecordedItem[]): number {
  const changes = items
    .flatMap(({ insertedMs, endedMs }) => [
      { atMs: insertedMs, by: 1 },
      { atMs: endedMs ?? Infinity, by: -1 },
    ])
    .toSorted((a, b) => a.atMs - b.atMs || a.by - b.by);
  let [now, most] = [0, 0];
  for (const { by } of changes) most = Math.max(most, (now += by));
  return most;
}

/** Mean number of jobs in flight during a time. */
export function meanInFlight(items: readonly RecordedItem[], fromMs: number, toMs: number): number {
  const busyMs = items.reduce(
    (sum, { insertedMs, endedMs }) =>
      sum + Math.max(0, Math.min(endedMs ?? toMs, toMs) - Math.max(insertedMs, fromMs)),
    0,
  );
  return busyMs / (toMs - fromMs);
}

export const ofQueue = (items: readonly RecordedItem[], queue: string): readonly RecordedItem[] =>
  items.filter((item) => item.queue === queue);

/** Jobs beyond the rate and its burst, in the worst of all windows. */
export function beyondRate(items: readonly RecordedItem[]): number {
  return worstWindow(
    ofQueue(items, 'texts').map(({ dispatchedMs }) => dispatchedMs),
    rate,
  ).jobs;
}

/** Jobs a second, dispatched during a time. */
export function dispatchedPerSecond(items: readonly RecordedItem[], fromMs: number, toMs: number): number {
  const within = items.filter(({ dispatchedMs }) => dispatchedMs >= fromMs && dispatchedMs < toMs);
  return (within.length * 1_000) / (toMs - fromMs);
}
