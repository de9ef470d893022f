import type { Database } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { effect, handlers, plain } from './tasks.ts';

/** A scenario that runs behind the proxy, and may die at any of its statements. */
export interface Scenario {
  readonly name: 'scheduler' | 'worker' | 'batches' | 'producer';
  /** SQL, run beforehand. */
  readonly prepare: string;
  /** Roles that run at the same time; the other roles start after this one has died or ended. */
  readonly beside: readonly ('scheduler' | 'worker')[];
  /**
   * Runs the scenario through `url`; ends early when `signal` aborts. `acknowledged` gets the id of each
   * enqueued job.
   */
  readonly run: (url: string, parts: RunParts) => Promise<void>;
}

export interface RunParts {
  readonly signal: AbortSignal;
  readonly acknowledged: (id: string) => void;
  /**
   * Resolves when at most `jobs` jobs are left in QUEUE, or after `atMostMs`. Uses a connection of its own.
   */
  readonly left: (jobs: number, atMostMs?: number) => Promise<void>;
  /** True if the scenario has a process of its own. */
  readonly alone: boolean;
}

const job = (task: string, more: Readonly<Record<string, string>> = {}): string => {
  const columns = ['task', 'max_crashes', ...Object.keys(more)];
  return `insert into pgqueue.queue (${columns.join(', ')}) values (${[`'${task}'`, '100', ...Object.values(more)].join(', ')});`;
};
const held = (node: string, timeout: string): string => `
  with q as (insert into pgqueue.queue (task, max_crashes) values ('plain', 100) returning id)
  insert into pgqueue.work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started)
  select id, 1, 'default', 'plain', '${node}', gen_random_uuid(), ${timeout}, clock_timestamp() from q;`;

/** A batch of jobs of one task, by the tries that each has had. */
const batch = (task: string, tries: readonly number[]): string => `
  with q as (insert into pgqueue.queue (task, max_crashes, tries) select '${task}', 100, t from unnest(array[${tries.join(', ')}]) t returning id)
  insert into pgqueue.work_queue (jobs, version, pool, task) select array_agg(id), 1, 'default', '${task}' from q;`;

/** All work of a leader: batches, promotion, expiry, schedules, expired leases, dead nodes. */
const scheduler: Scenario = {
  name: 'scheduler',
  beside: ['worker'],
  prepare: [
    job('plain'),
    job('effect'),
    job('fails'),
    job('plain', { run_after: `clock_timestamp() - interval '1 s'` }),
    job('plain', { expires_at: `clock_timestamp() - interval '1 s'` }),
    `insert into pgqueue.node (id, incarnation, state, slots, tasks, heartbeat, heartbeat_ms, lost_after_ms, started)
     values ('ghost', gen_random_uuid(), 'alive', 1, '{}', clock_timestamp(), 600000, 1800000, clock_timestamp());`,
    held('ghost', `clock_timestamp() - interval '1 s'`),
    held('gone', `clock_timestamp() + interval '1 h'`),
    `insert into pgqueue.schedule (name, cron, task, payload, next_slot)
     values ('each year', '0 0 1 1 *', 'plain', '{}', date_trunc('year', clock_timestamp() at time zone 'UTC') at time zone 'UTC');`,
  ].join('\n'),
  run: async (url, { left, signal }) => {
    const doomed = createScheduler({
      connectionString: url,
      name: 'doomed',
      listen: false,
      leaseMs: 2_000, // a shorter lease expires before it is used, on a busy machine
      pollMs: { min: 5, max: 20 },
    });
    signal.addEventListener('abort', () => void doomed.stop(), { once: true });
    try {
      await doomed.start();
      await left(0);
    } finally {
      await doomed.stop();
    }
  },
};

/** All work of a node: it registers, claims, extends, settles in every way, releases, leaves. */
const worker: Scenario = {
  name: 'worker',
  beside: ['scheduler'],
  prepare: ['plain', 'plain', 'effect', 'effect', 'fails', 'long', 'sleeps', 'lingers']
    .map((task) => job(task))
    .join('\n'),
  run: (url, parts) => workUntil(url, parts, 1),
};

/**
 * The same with batches: settled completely, in part, and not at all; taken apart by an operation on one of
 * their jobs.
 */
const batches: Scenario = {
  name: 'batches',
  beside: ['scheduler'],
  prepare: [
    batch('plain', [0, 0, 0, 0]),
    batch('fails', [1, 0, 1]),
    batch('sleeps', [0, 0]),
    batch('long', [0, 0, 0]),
    batch('effect', [0, 0]),
    batch('plain', [0, 0]),
  ].join('\n'),
  run: (url, parts) => workUntil(url, parts, 0),
};

/**
 * Runs a node until `jobs` jobs are left. Jobs that it lost would wait for an empty node, and the node is not
 * empty while one of them keeps running.
 */
async function workUntil(url: string, { left, alone, signal }: RunParts, jobs: number): Promise<void> {
  const doomed = createWorker({
    connectionString: url,
    node: 'doomed',
    tasks: handlers(true),
    concurrency: 3,
    listen: false,
    heartbeatMs: 100,
    lostAfterMs: 500,
    heartbeatThread: alone,
    blockedMs: 0,
  });
  signal.addEventListener('abort', () => void doomed.stop({ drainMs: 0 }), { once: true });
  try {
    await doomed.start();
    await left(jobs, 3_000);
  } finally {
    await doomed.stop({ drainMs: 0 });
  }
}

/** Enqueues one job, several, one with a unique key, and one within a transaction of the application. */
const producer: Scenario = {
  name: 'producer',
  beside: ['scheduler', 'worker'],
  prepare: '',
  run: async (url, { acknowledged }) => {
    const doomed = createProducer({ connectionString: url, queryTimeoutMs: 2_000 });
    try {
      const told = (enqueued: readonly { readonly id: string }[]): void => {
        for (const { id } of enqueued) acknowledged(id);
      };
      told([await doomed.enqueue(plain, {})]);
      told(await doomed.enqueueMany([plain.job({}), effect.job({}), plain.job({})]));
      told([await doomed.enqueue(plain, {}, { uniqueKey: 'one' })]);
      told([await doomed.enqueue(plain, {}, { uniqueKey: { key: 'other', onConflict: 'replace' } })]);
      await inApplication(url, async (client) => {
        const { id } = await doomed.with(client).enqueue(plain, {});
        await client.query('insert into application (job) values ($1)', [id]);
        return id;
      }).then((id) => told([{ id }]));
    } finally {
      await doomed.close();
    }
  },
};

/** Runs a transaction of the application, which nobody repeats. */
async function inApplication(url: string, work: (client: pg.Client) => Promise<string>): Promise<string> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('begin');
    const id = await work(client);
    await client.query('commit');
    return id;
  } finally {
    await client.end();
  }
}

export const scenarios: readonly Scenario[] = [scheduler, worker, batches, producer];

/**
 * Resolves when at most `jobs` jobs have not ended, or after `atMostMs`. Throws when `signal` aborts, or
 * after 150 seconds.
 */
export async function untilLeft(
  database: Database,
  jobs: number,
  {
    signal,
    atMostMs = Infinity,
  }: { readonly signal?: AbortSignal; readonly atMostMs?: number | undefined } = {},
): Promise<void> {
  const began = performance.now();
  for (;;) {
    signal?.throwIfAborted();
    const [row] = await database.query<{ jobs: number; rows: string }>(
      `select count(*)::integer as jobs, coalesce(string_agg(concat_ws(' ', status, task, node, crashes), ', '), '') as rows
       from pgqueue.job where status in ('delayed', 'pending', 'ready', 'running')`,
      [],
    );
    const passedMs = performance.now() - began;
    if ((row !== undefined && row.jobs <= jobs) || passedMs > atMostMs) return;
    if (passedMs > 150_000) throw new Error(`more than ${jobs} jobs are left: ${row?.rows}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
