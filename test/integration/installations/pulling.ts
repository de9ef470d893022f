import type { PgQueueEvent } from '@pgqueue/core';
import { defineTask } from '@pgqueue/core';
import type { Router, RouterPulledJob, RouterPuller, RouterPullerOptions } from '@pgqueue/router';
import { createRouter, homeOf } from '@pgqueue/router';
import { afterEach } from 'vitest';
import { z } from 'zod';
import { dispatchAll } from '../../support/dispatch-all.ts';
import type { Several } from './support.ts';
import { nth, useSeveral } from './support.ts';

export const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }), timeout: '1h' });
export const nowhere = 'postgres://postgres@127.0.0.1:1/nowhere';
export const names = ['one', 'two', 'three'] as const;
/** A key of each installation, by number. */
export const keys = [1, 2, 3].map(
  (home) =>
    Array.from({ length: 99 }, (_, n) => `k${n}`).find((key) => homeOf(key, [1, 2, 3]) === home) ?? '',
);

type Options = Partial<RouterPullerOptions>;

/** Pullers over three installations, closed after each test. */
export interface Pulling {
  readonly several: Several;
  readonly router: Router;
  /** Add what is to be closed; the last one is closed first. */
  readonly closing: (() => Promise<void>)[];
  readonly open: (options?: Options, from?: Router) => RouterPuller;
  /** A puller over the same installations, some of them at other addresses. */
  readonly openAt: (
    urls: Readonly<Record<number, string>>,
    options?: Options,
  ) => { readonly puller: RouterPuller; readonly events: readonly PgQueueEvent[] };
  /** Enqueues jobs to the installation with this number, and makes them ready; resolves to their ids. */
  readonly ready: (number: number, count: number) => Promise<readonly string[]>;
  readonly status: (id?: string) => Promise<unknown>;
  readonly totals: (number: number) => Promise<{ readonly ready: number; readonly running: number }>;
}

export function usePulling(): Pulling {
  const { several, router } = useSeveral(3);
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).toReversed()) await close();
  });
  const open: Pulling['open'] = (options = {}, from = router) => {
    const puller = from.puller({ tasks: [task], heartbeatMs: 100, lostAfterMs: 60_000, ...options });
    closing.push(() => puller.close());
    return puller;
  };
  return {
    several,
    router,
    closing,
    open,
    openAt: (urls, options = {}) => {
      const events: PgQueueEvent[] = [];
      const other = createRouter({
        installations: several.installations.map((one) => ({
          ...one,
          connectionString: urls[one.number] ?? one.connectionString,
        })),
      });
      closing.push(() => other.close());
      return { puller: open({ observe: (event) => void events.push(event), ...options }, other), events };
    },
    ready: async (number, count) => {
      const key = nth(keys, number - 1);
      const jobs = Array.from({ length: count }, (_, n) => task.job({ n }, { key }));
      const made = await router.producer.enqueueMany(jobs);
      await dispatchAll(nth(several.databases, number - 1));
      return made.map(({ id }) => id);
    },
    status: async (id = '') => (await router.operator.jobs.get(id))?.status,
    totals: async (number) => (await nth(several.operators, number - 1).status()).totals,
  };
}

/** Names of the installations that have handed out these jobs. */
export function where(jobs: readonly RouterPulledJob[]): readonly string[] {
  return jobs.map(({ installation }) => installation);
}

/** Claims until there are so many jobs: an installation that is met late on a busy machine hands them out with a later claim. */
export async function take(puller: RouterPuller, count: number): Promise<readonly RouterPulledJob[]> {
  const jobs: RouterPulledJob[] = [];
  while (jobs.length < count)
    jobs.push(...(await puller.claim({ max: count - jobs.length, waitMs: 60_000 })));
  return jobs;
}
