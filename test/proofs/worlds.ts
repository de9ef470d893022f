// Small random worlds for the properties: arrivals, durations, limits, rates and crashes, on a real database
// with real workers.
import { randomUUID } from 'node:crypto';
import type { JobFacts, Policy } from '@pgqueue/core';
import { concurrency, fairShare, implement, policy, rate, turns } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import { openDatabase, resetNode } from '@pgqueue/postgres/internal';
import type { Scheduler } from '@pgqueue/scheduler';
import { createScheduler } from '@pgqueue/scheduler';
import type { Worker } from '@pgqueue/worker';
import { createWorker } from '@pgqueue/worker';
import fc from 'fast-check';
import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../support/until.ts';
import { work } from './actors/tasks.ts';
import { countRows, hint, load } from './fleet.ts';
import type { WorldReport } from './judge.ts';
import { judge } from './judge.ts';
import { databaseNow, recordedItems } from './recorder.ts';

/** Some jobs of one key, enqueued by one statement. */
export interface Arrival {
  readonly atMs: number;
  readonly count: number;
  readonly tenant: number;
  readonly key: number;
  readonly queue: number;
  readonly priority: number;
  readonly ms: number;
  readonly fails: number;
}

/**
 * A disturbance. `reset`: a node loses all its leases, as if it had crashed; `handover`: the leader stops,
 * and another begins.
 */
export interface Upset {
  readonly atMs: number;
  readonly kind: 'reset' | 'handover';
}

export interface World {
  readonly limit: number;
  readonly rate: { readonly perSecond: number; readonly burst: number } | null;
  readonly keyConcurrency: number | null;
  /** Weights of the tenants' shares, by jobs or by the time of workers; null: keys take turns. */
  readonly weights: { readonly by: 'jobs' | 'time'; readonly of: readonly number[] } | null;
  readonly slots: number;
  readonly arrivals: readonly Arrival[];
  readonly upsets: readonly Upset[];
}

/**
 * Generates worlds. All jobs arrive within the first second. A key belongs to one tenant, because the order
 * within a key is checked.
 */
export const worlds: fc.Arbitrary<World> = fc.record({
  limit: fc.integer({ min: 1, max: 4 }),
  rate: fc.option(
    fc.record({ perSecond: fc.integer({ min: 60, max: 400 }), burst: fc.integer({ min: 1, max: 20 }) }),
    { freq: 1 },
  ),
  keyConcurrency: fc.option(fc.integer({ min: 1, max: 3 }), { freq: 1 }),
  weights: fc.option(
    fc.record({
      by: fc.constantFrom('jobs' as const, 'time' as const),
      of: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 3, maxLength: 3 }),
    }),
    { freq: 2 },
  ),
  slots: fc.integer({ min: 2, max: 8 }),
  arrivals: fc.array(
    fc.record({
      atMs: fc.integer({ min: 0, max: 1_000 }),
      count: fc.integer({ min: 1, max: 60 }),
      tenant: fc.integer({ min: 0, max: 2 }),
      key: fc.integer({ min: 0, max: 1 }),
      queue: fc.integer({ min: 0, max: 1 }),
      priority: fc.integer({ min: 0, max: 1 }),
      ms: fc.integer({ min: 0, max: 12 }),
      fails: fc.integer({ min: 0, max: 1 }),
    }),
    { minLength: 3, maxLength: 12 },
  ),
  upsets: fc.array(
    fc.record({
      atMs: fc.integer({ min: 0, max: 1_000 }),
      kind: fc.constantFrom('reset' as const, 'handover' as const),
    }),
    { maxLength: 2 },
  ),
});

/** Milliseconds for a machine that is busy with other tests; alone, a world takes about two seconds. */
const allMs = 60_000;

function tenantOf({ attributes }: JobFacts): string {
  return String(attributes['tenant']);
}

function policyOf({ limit, rate: most, weights }: World): Policy {
  const tenant = concurrency({ name: 'tenant', by: tenantOf, limit });
  const gates = most === null ? [tenant] : [tenant, rate({ name: 'api', ...most })];
  if (weights === null) return policy({ gates, order: turns() });
  const weight = (name: string): number => weights.of[Number(name.at(-1))] ?? 1;
  const levels = [{ name: 'share', by: tenantOf, weight }, { by: 'key' as const }];
  return policy({ gates, order: fairShare({ levels, charge: weights.by }) });
}

/** Everything that runs in one world. */
class Stage {
  readonly world: World;
  readonly database: Database;
  readonly #url: string;
  #scheduler: Scheduler | undefined;
  #worker: Worker | undefined;
  readonly pauses: { readonly fromMs: number; readonly toMs: number }[] = [];
  #tickMs = 0;
  #enqueueMs = 0;

  constructor(url: string, world: World) {
    this.#url = url;
    this.world = world;
    this.database = openDatabase({ connectionString: url, connectionsMax: 4 });
  }

  async start(): Promise<void> {
    await this.database.query(
      `truncate pgqueue.queue, pgqueue.work_queue, pgqueue.history, pgqueue.node, pgqueue.queue_config,
                pgqueue.policy_state, proof.item`,
      [],
    );
    const { keyConcurrency, slots } = this.world;
    for (const queue of ['queue-0', 'queue-1']) {
      await this.database.query(`insert into pgqueue.queue_config (queue, key_concurrency) values ($1, $2)`, [
        queue,
        keyConcurrency,
      ]);
    }
    await this.#lead();
    this.#worker = createWorker({
      connectionString: this.#url,
      node: `node-${randomUUID().slice(0, 8)}`,
      concurrency: slots,
      heartbeatMs: 100,
      lostAfterMs: 2_000,
      tasks: [
        implement(work, async ({ ms, fails }, { job }) => {
          await delay(ms);
          if (job.tries < fails) throw new Error('fails once');
        }),
      ],
    });
    await this.#worker.start();
  }

  async #lead(): Promise<void> {
    const scheduler = createScheduler({
      connectionString: this.#url,
      leaseMs: 1_000,
      policy: policyOf(this.world),
      observe: (event) => {
        if (event.type === 'tick') this.#tickMs = Math.max(this.#tickMs, event.durationMs);
      },
    });
    this.#scheduler = scheduler;
    await scheduler.start();
    await until('it to lead', () => scheduler.leads);
  }

  async upset({ kind }: Upset): Promise<void> {
    const fromMs = await databaseNow(this.database);
    if (kind === 'handover') {
      await this.#scheduler?.stop();
      await this.#lead();
    } else if (this.#worker !== undefined) {
      await resetNode(this.database, this.#worker.node);
    }
    // a node learns of its reset by its heartbeat
    this.pauses.push({ fromMs, toMs: (await databaseNow(this.database)) + 400 });
  }

  async enqueue(arrival: Arrival): Promise<void> {
    const { count, tenant, key, queue, priority, ms, fails } = arrival;
    const began = performance.now();
    await load(this.database, {
      count,
      queue: `queue-${queue}`,
      key: `${tenant}-${key}`,
      tenant: `tenant-${tenant}`,
      priority,
      ms,
      fails,
    });
    this.#enqueueMs = Math.max(this.#enqueueMs, performance.now() - began);
  }

  /** Longest time from a job's `created` to a plan that must have seen it: its commit, then a tick that began before. */
  get lagMs(): number {
    return this.#tickMs + this.#enqueueMs;
  }

  async stop(): Promise<void> {
    await Promise.all([this.#scheduler?.stop(), this.#worker?.stop({ drainMs: 0 })]);
    await this.database.close();
  }
}

/** Runs a world to its end, and checks the record. Needs the recorder's triggers. */
export async function play(url: string, world: World): Promise<WorldReport> {
  const stage = new Stage(url, world);
  try {
    await stage.start();
    const began = performance.now();
    const script = [
      ...world.arrivals.map((arrival) => ({ atMs: arrival.atMs, act: () => stage.enqueue(arrival) })),
      ...world.upsets.map((upset) => ({ atMs: upset.atMs, act: () => stage.upset(upset) })),
    ].toSorted((a, b) => a.atMs - b.atMs);
    for (const { atMs, act } of script) {
      await delay(Math.max(0, atMs - (performance.now() - began)));
      await act();
    }
    await hint(stage.database);
    await until(
      'every job to end: one starves',
      async () => (await countRows(stage.database, 'queue')) === 0,
      allMs,
    );
    const jobs = world.arrivals.reduce((sum, { count }) => sum + count, 0);
    const done = await countRows(stage.database, 'history', "outcome = 'done'");
    const created = await createdTimes(stage.database);
    return {
      ...judge(world, await recordedItems(stage.database), {
        created,
        pauses: stage.pauses,
        lagMs: stage.lagMs,
      }),
      jobs: done === jobs ? jobs : -1,
    };
  } finally {
    await stage.stop();
  }
}

async function createdTimes(database: Database): Promise<ReadonlyMap<string, number>> {
  const rows = await database.query<{ id: string; ms: number }>(
    `select id, extract(epoch from created)::float8 * 1000 as ms from pgqueue.history`,
    [],
  );
  return new Map(rows.map(({ id, ms }) => [id, ms]));
}
