// One run: a scheduler and two workers do good jobs while producers and workers of least privilege send
// hostile SQL.
import { setTimeout as delay } from 'node:timers/promises';
import type { PgQueueEvent } from '@pgqueue/core';
import { defineTask, giveUp, implement } from '@pgqueue/core';
import { createRandom } from '@pgqueue/lab';
import { createOperator, migrate } from '@pgqueue/postgres';
import { breaches, isTransient, openDatabase } from '@pgqueue/postgres/internal';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { z } from 'zod';
import { createAttacks, outbox } from './attacks.ts';
import type { Dice } from './values.ts';
import { diceOf } from './values.ts';

export interface FuzzOptions {
  /** A superuser's URL of a migrated database that this run has to itself. */
  readonly url: string;
  readonly seed: number;
  /** Rounds of hostile statements, with good jobs beside each. */
  readonly rounds: number;
  readonly attacks: number;
  readonly good: number;
  /** Milliseconds after which no further round begins. */
  readonly untilMs?: number;
  /** Milliseconds within which all good jobs of a round must be done: a bound for jobs that never end. */
  readonly patienceMs?: number;
  readonly told?: (line: string) => void;
}

export interface Fuzzed {
  readonly violations: readonly string[];
  readonly attacks: number;
  /** Number of hostile statements by their result: `accepted`, or the SQLSTATE. */
  readonly answers: Readonly<Record<string, number>>;
  readonly rounds: number;
  /**
   * Slowdown of good jobs: the time of a round, divided by the time right after it beside as many connections
   * that compute; the median of all rounds. The ratio counts harm by the statements, without the processor
   * time that any busy connection takes.
   */
  readonly slower: number;
}

const connections = 3;

export async function fuzz(options: FuzzOptions): Promise<Fuzzed> {
  const {
    url,
    seed,
    rounds,
    attacks,
    good,
    untilMs = Infinity,
    patienceMs = 60_000,
    told = () => {},
  } = options;
  const dice = diceOf(createRandom(seed));
  const owner = openDatabase({ connectionString: url, connectionsMax: 3 });
  await migrate({ connectionString: url, roles: true });
  await owner.pool.query(outbox);
  const system = await startSystem(url, dice);
  const next = await createAttacks(url, dice);
  const senders = await Promise.all(Array.from({ length: connections }, () => openSender(url)));
  const violations: string[] = [];
  const answers: Record<string, number> = {};
  let sent = 0;
  const attackMany = async (count: number): Promise<void> => {
    const todo = Array.from({ length: count }, () => next);
    await Promise.all(
      senders.map(async (send) => {
        for (let make = todo.pop(); make !== undefined; make = todo.pop()) {
          const answer = await send(make());
          answers[answer] = (answers[answer] ?? 0) + 1;
          sent += 1;
        }
      }),
    );
  };
  const doGood = async (): Promise<number> => {
    const began = performance.now();
    const done = await system.doGood(good, patienceMs);
    if (done < good)
      violations.push(`${good - done} of ${good} good jobs are not done after ${patienceMs} ms`);
    return performance.now() - began;
  };
  const began = performance.now();
  const ratios: number[] = [];
  try {
    await doGood(); // connections, plans and caches are warm
    while (ratios.length < rounds && violations.length === 0 && performance.now() - began < untilMs) {
      await attackMany(Math.ceil(attacks / 2));
      const [ms] = await Promise.all([doGood(), attackMany(Math.floor(attacks / 2))]);
      violations.push(...system.repeated());
      await clear(url, owner);
      const aloneMs = await doGood();
      const busyMs = await besideComputing(senders, doGood);
      ratios.push(ms / busyMs);
      told(
        `round ${ratios.length}: ${good} good jobs in ${Math.round(ms)} ms (${Math.round(busyMs)} ms beside as many connections that compute, ${Math.round(aloneMs)} ms alone), ${sent} statements`,
      );
    }
    violations.push(
      ...(await system.leaks(patienceMs)),
      ...(await breaches(owner)).map((breach) => JSON.stringify(breach)),
    );
    const { rows } = await owner.pool.query(`select id from pgqueue.dead_letter where task = 'good'`);
    if (rows.length > 0) violations.push(`${rows.length} good jobs are dead`);
  } finally {
    await system.stop();
    await Promise.all(senders.map((send) => send(undefined)));
    await owner.close();
  }
  const slower = ratios.toSorted((a, b) => a - b)[Math.floor(ratios.length / 2)] ?? 0;
  return { violations, attacks: sent, answers, rounds: ratios.length, slower };
}

/** Resolves to the duration of the work while each sender computes, one statement after the other. */
async function besideComputing(senders: readonly Send[], work: () => Promise<number>): Promise<number> {
  const over = new AbortController();
  const computing = senders.map(async (send) => {
    while (!over.signal.aborted) await send({ role: 'producer', text: computation, values: [] });
  });
  try {
    return await work();
  } finally {
    over.abort();
    await Promise.all(computing);
  }
}

/** A statement that takes some milliseconds of a processor, and reads no table. */
const computation = 'select count(*) from generate_series(1, 50000)';

/** Removes the leftovers of a round, so that they don't slow down the next one: floods are another matter. */
async function clear(url: string, owner: ReturnType<typeof openDatabase>): Promise<void> {
  const operator = createOperator({ connectionString: url, pool: owner.pool });
  const { rows } = await owner.pool.query<{ id: string }>(
    `select q.id from pgqueue.queue q left join pgqueue.work_item w on w.id = q.id where q.task <> 'good' and w.lock_key is null limit 5000`,
  );
  for (let at = 0; at < rows.length; at += 500)
    await operator.jobs.erase(rows.slice(at, at + 500).map(({ id }) => id));
}

type Send = (attack: ReturnType<Awaited<ReturnType<typeof createAttacks>>> | undefined) => Promise<string>;

/**
 * Returns a function that sends statements as a member of a role of least privilege; called with undefined,
 * it closes.
 */
async function openSender(url: string): Promise<Send> {
  const clients = new Map<string, pg.Client>();
  for (const role of ['producer', 'worker']) {
    const client = new pg.Client({ connectionString: asRole(url, role) });
    await client.connect();
    await client.query(`set statement_timeout = '20s'; set lock_timeout = '5s'`);
    clients.set(role, client);
  }
  return async (attack) => {
    if (attack === undefined) {
      for (const client of clients.values()) await client.end();
      return '';
    }
    try {
      const answer = await clients.get(attack.role)?.query(attack.text, [...attack.values]);
      attack.heard?.(answer?.rows ?? []);
      return 'accepted';
    } catch (error) {
      return (error as { readonly code?: string }).code ?? String(error);
    }
  };
}

function asRole(url: string, role: string): string {
  const own = new URL(url);
  own.searchParams.set('options', `-c role=pgqueue_${role}`);
  return own.href;
}

interface System {
  /** Enqueues good jobs. Resolves to the number of those done, after `patienceMs` at the latest. */
  readonly doGood: (count: number, patienceMs: number) => Promise<number>;
  /** Returns the failures that occurred more than once: the system did not set their cause aside. */
  readonly repeated: () => readonly string[];
  /** Returns the slots still in use after all work is done. */
  readonly leaks: (patienceMs: number) => Promise<readonly string[]>;
  readonly stop: () => Promise<void>;
}

async function startSystem(url: string, dice: Dice): Promise<System> {
  const failures = new Map<string, number>();
  const observe = (event: PgQueueEvent): void => {
    if (event.type !== 'database.error' || isTransient(event.error)) return;
    // a refused settlement is retried in halves, and each half is reported
    if (event.during === 'settle') return;
    const what = `${event.during}: ${event.error instanceof Error ? event.error.message : String(event.error)}`;
    failures.set(what, (failures.get(what) ?? 0) + 1);
  };
  const done = new Set<string>();
  const waiting = new Map<number, () => void>();
  const goodTask = defineTask({ name: 'good', payload: z.object({ n: z.number() }) });
  const fuzzTask = defineTask({ name: 'fuzz', payload: z.unknown() });
  const handlers = [
    implement(goodTask, ({ n }, { job }) => {
      done.add(job.id);
      for (const [count, tell] of waiting) if (done.size >= count) tell();
      return n;
    }),
    implement(fuzzTask, async (payload, ctx) => {
      const end = dice.below(7);
      if (end === 0) await ctx.progress(payload).catch(() => {});
      if (end === 1) await ctx.checkpoint(payload).catch(() => {});
      if (end === 2) throw payload;
      if (end === 3) throw new Error(JSON.stringify(payload).slice(0, 5_000), { cause: payload });
      if (end === 4) return giveUp(payload);
      return payload;
    }),
  ];
  const scheduler = createScheduler({ connectionString: asRole(url, 'scheduler'), observe });
  const workers = ['good-1', 'good-2'].map((node) =>
    createWorker({
      connectionString: asRole(url, 'worker'),
      node,
      tasks: handlers,
      concurrency: 20,
      observe,
      drainMs: 2_000,
    }),
  );
  const unhandled = (error: unknown): void => void failures.set(`unhandled: ${String(error)}`, 2);
  process.on('unhandledRejection', unhandled);
  const producer = new pg.Client({ connectionString: asRole(url, 'producer') });
  await Promise.all([producer.connect(), scheduler.start(), ...workers.map((worker) => worker.start())]);
  return {
    doGood: async (count, patienceMs) => {
      const before = done.size;
      const all = Promise.withResolvers<void>();
      waiting.set(before + count, all.resolve);
      await producer.query(
        `with made as (insert into pgqueue.queue (task, key, payload)
           select 'good', 'good-' || n % 20, jsonb_build_object('n', n) from generate_series(1, $1::integer) n returning id)
         select pg_notify('pgqueue:queue', '') from made limit 1`,
        [count],
      );
      const patience = new AbortController();
      await Promise.race([
        all.promise,
        delay(patienceMs, undefined, { signal: patience.signal }).catch(() => {}),
      ]);
      patience.abort();
      waiting.delete(before + count);
      return done.size - before;
    },
    repeated: () =>
      [...failures].filter(([, count]) => count > 1).map(([what, count]) => `${count} times ${what}`),
    leaks: async (patienceMs) => {
      const deadline = performance.now() + patienceMs;
      while (workers.some(({ running }) => running > 0) && performance.now() < deadline) await delay(50);
      return workers
        .filter(({ running }) => running > 0)
        .map(({ node, running }) => `${node} has ${running} slots in use`);
    },
    stop: async () => {
      await Promise.all([scheduler.stop(), ...workers.map((worker) => worker.stop()), producer.end()]);
      process.off('unhandledRejection', unhandled);
    },
  };
}
