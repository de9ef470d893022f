import type { Policy } from '@pgqueue/core';
import type { JobExplanation, Operator, Reason } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import { claim, registerNode, settle } from '@pgqueue/postgres/internal';
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { Bench } from '../scheduler/support.ts';
import { openBench, until } from '../scheduler/support.ts';

export const hourMs = 3_600_000;

/** Checks that a time is about `ms` milliseconds ahead: a minute may have passed since it was reported. */
export function isIn(until: Date | null | undefined, ms: number): void {
  const inMs = (until?.getTime() ?? 0) - Date.now();
  expect(inMs).toBeGreaterThan(ms - 60_000);
  expect(inMs).toBeLessThanOrEqual(ms + 1_000);
}

/** A job to enqueue; fields left out have their defaults. */
export interface JobSeed {
  readonly task?: string;
  readonly queue?: string;
  readonly key?: string;
  readonly attributes?: Readonly<Record<string, string | number>>;
  readonly version?: number;
}

/** A worker driven by the test: a claimed job runs until the test ends it. */
export interface Hand {
  /** Claims ready jobs up to its slots. Resolves to the number that it holds then. */
  readonly claims: () => Promise<number>;
  readonly ends: (id: string, outcome: 'done' | 'retry' | 'dead', delayMs?: number) => Promise<void>;
}

/** A bench for tests of `explain`. */
export interface Explained extends Bench {
  readonly operator: Operator;
  readonly add: (...jobs: readonly JobSeed[]) => Promise<readonly string[]>;
  readonly hand: (options?: { readonly slots?: number; readonly tasks?: readonly string[] }) => Promise<Hand>;
  /** Starts a scheduler with this policy, or the default one. */
  readonly leads: (policy?: Policy) => Promise<void>;
  /** Waits until these jobs, and no others, have work items. */
  readonly scheduled: (...ids: readonly string[]) => Promise<void>;
  /** Resolves to the leader's explanation of a job. */
  readonly explain: (id: string) => Promise<JobExplanation>;
  /** Resolves to the rules that hold a job, without its place in line. */
  readonly holds: (id: string) => Promise<readonly Reason[]>;
}

export async function openExplained(): Promise<Explained> {
  const bench = await openBench();
  const { database } = bench;
  const operator = createOperator({ pool: database.pool });
  const explain: Explained['explain'] = async (id) => {
    const explained = await operator.explain(id, { waitMs: 30_000 });
    expect(explained.policy, 'the leader answers').not.toBeNull();
    return explained;
  };
  return {
    ...bench,
    operator,
    explain,
    holds: async (id) => (await explain(id)).reasons.filter(({ kind }) => kind !== 'in_line'),
    add: async (...jobs) => {
      const ids: string[] = [];
      for (const { task = 't', queue = 'default', key = '', attributes = {}, version = 1 } of jobs) {
        const [row] = await database.query<{ id: string }>(
          `insert into pgqueue.queue (task, queue, key, attributes, payload_version) values ($1, $2, $3, $4, $5) returning id`,
          [task, queue, key, JSON.stringify(attributes), version],
        );
        ids.push(row?.id ?? '');
      }
      await bench.hint();
      return ids;
    },
    hand: (options) => startHand(bench, options),
    leads: async (policy) => {
      const scheduler = await bench.scheduler({ horizonMs: 0, ...(policy === undefined ? {} : { policy }) });
      await until('it leads', () => scheduler.leads);
    },
    scheduled: async (...ids) => {
      const wanted = ids.toSorted().join();
      await until('exactly these jobs are scheduled', async () => {
        const items = await bench.items();
        const found = items.map(({ id }) => id).toSorted();
        return found.join() === wanted;
      });
    },
    close: async () => {
      await operator.close();
      await bench.close();
    },
  };
}

async function startHand(
  { database }: Bench,
  { slots = 10, tasks = ['t'] }: { readonly slots?: number; readonly tasks?: readonly string[] } = {},
): Promise<Hand> {
  const [node, incarnation] = ['hand', randomUUID()];
  await registerNode(database, {
    node,
    incarnation,
    tasks: Object.fromEntries(tasks.map((task) => [task, { min: 1, max: 1, timeoutMs: null, batch: true }])),
    slots,
    pool: 'default',
    heartbeatMs: 30_000,
    lostAfterMs: 60_000,
    software: 'test',
    seen: null,
  });
  const tokens = new Map<string, string>();
  return {
    claims: async () => {
      const token = randomUUID();
      const jobs = await claim(database, { node, incarnation, max: slots, token });
      for (const { id } of jobs) tokens.set(id, token);
      return tokens.size;
    },
    ends: async (id, outcome, delayMs = 0) => {
      const data = outcome === 'done' ? null : '{"message": "no"}';
      const verdicts = await settle(database, [{ id, token: tokens.get(id) ?? '', outcome, delayMs, data }]);
      expect([...verdicts.values()]).not.toContain('stale');
      tokens.delete(id);
      await database.query(`select pg_notify('pgqueue:done', '')`, []);
    },
  };
}
