import { defineTask, implement } from '@pgqueue/core';
import { createDashboard } from '@pgqueue/dashboard';
import type { Depths, LiveSnapshot, Overview, Queues } from '@pgqueue/dashboard';
import { readStatus } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import type { SchedulerOptions } from '@pgqueue/scheduler';
import { createScheduler } from '@pgqueue/scheduler';
import { counters, gauges, histograms, prometheusName } from '@pgqueue/telemetry';
import { createWorker } from '@pgqueue/worker';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import type { Scrape } from '../../support/metrics.ts';
import { scrape } from '../../support/metrics.ts';
import { until } from '../../support/until.ts';

const own = useDatabase();
const { database, reset, sql, insert, run, die, item } = own;

beforeEach(reset);

type HealthMore = Pick<NonNullable<SchedulerOptions['health']>, 'keys' | 'metrics'>;
const health = { port: 0, host: '127.0.0.1' };
const task = defineTask({ name: 'hello', payload: z.object({ fail: z.boolean().optional() }) });

const states = ['delayed', 'pending', 'ready', 'running', 'dead'] as const;

/**
 * Reads the depths by queue from the overview, from the page of queues, and from the live updates of its
 * tabs.
 */
async function dashboardsNumbers(): Promise<readonly ReadonlyMap<string, Depths>[]> {
  const auth = (): { readonly name: string; readonly role: 'viewer' } => ({ name: 'vera', role: 'viewer' });
  const dashboard = createDashboard({ connectionString: own.url, auth, databaseRoles: false });
  const ask = (path: string): Promise<Response> =>
    dashboard.fetch(new Request(`http://localhost/api/${path}`));
  try {
    const overview = (await (await ask('overview')).json()) as Overview;
    const { queues } = (await (await ask('queues')).json()) as Queues;
    const live = await firstSnapshot(await ask('live'));
    return [
      new Map(overview.queues.map(({ queue, now }) => [queue, now])),
      new Map(queues.map(({ queue, now }) => [queue, now])),
      new Map(live.queues.map(({ queue, ...now }) => [queue, now])),
    ];
  } finally {
    await dashboard.close();
  }
}

async function firstSnapshot({ body }: Response): Promise<LiveSnapshot> {
  let text = '';
  for await (const part of (body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    text += part;
    const [, data] = /^event: snapshot\ndata: (.*)$/m.exec(text) ?? [];
    if (data !== undefined) return JSON.parse(data) as LiveSnapshot;
  }
  throw new Error(`no snapshot: ${text}`);
}

/** Returns the counted fields, which are the same in every reading. */
function counted(depths: Depths | undefined): object {
  return {
    ...Object.fromEntries(states.map((state) => [state, depths?.[state]])),
    retryRate: depths?.retryRate,
  };
}

describe('a standby tells of the database', () => {
  /** Starts a standby while another scheduler leads, so that no job changes its state. */
  async function asStandby(
    look: (port: number | undefined) => Promise<void>,
    more: HealthMore = {},
  ): Promise<void> {
    const scheduler = createScheduler({
      connectionString: own.url,
      listen: false,
      health: { ...health, ...more },
    });
    await scheduler.start();
    try {
      await look(scheduler.healthPort);
    } finally {
      await scheduler.stop();
    }
  }

  beforeEach(async () => {
    for (const queue of ['mail', 'video']) {
      const ended = [await insert({ queue }), await insert({ queue })];
      const token = await run('n', ended);
      await sql(
        `select * from pgqueue.settle($1::uuid[], array_fill($2::uuid, array[2]), '{done, retry}', '{null, 0}', '{null, null}')`,
        [ended, token],
      );
      await die({ queue });
      await insert({ queue, run_after: '2999-01-01T00:00:00Z' });
      await run('n', [await insert({ queue, key: 'acme' })]);
    }
    for (const key of ['a', 'a', 'a', 'b', 'b', 'c']) await insert({ queue: 'mail', key });
    await item(await insert({ queue: 'mail', key: 'b' }));
    await sql(`insert into pgqueue.queue_config (queue, paused) values ('idle', true)`);
    // started eleven days ago: readings that are seconds apart round to the same age
    await sql(`update pgqueue.work_queue set started = started - interval '1000000 s'`);
  });

  test('and depth, claim age and retry rate are those of status, the dashboard and the views, to the unit', () =>
    asStandby(async (port) => {
      const { values } = await scrape(port);
      const shown = await dashboardsNumbers();
      const status = await readStatus(database);
      const views = await sql('select * from pgqueue.queue_status order by queue');
      expect(views.map(({ queue }) => queue)).toEqual(status.queues.map(({ queue }) => queue));
      const names = status.queues.map(({ queue }) => queue);
      for (const page of shown) expect([...page.keys()].toSorted()).toEqual(names);
      for (const [index, queue] of status.queues.entries()) {
        const exact = states.map((state) => [state, { count: queue[state], kind: 'exact' }] as const);
        for (const page of shown) {
          const depths = page.get(queue.queue);
          expect(counted(depths)).toEqual({ ...Object.fromEntries(exact), retryRate: queue.retryRate });
          expect((depths?.claimAgeMs ?? 0) / 1_000).toBeCloseTo((queue.claimAgeMs ?? 0) / 1_000, -2);
        }
        const of = (name: string): number | undefined =>
          values.get(`pgqueue_${name}{queue="${queue.queue}"}`);
        for (const state of states) {
          const told = values.get(`pgqueue_queue_jobs{queue="${queue.queue}",state="${state}"}`);
          expect([told, Number(views[index]?.[state])]).toEqual([queue[state], queue[state]]);
        }
        expect(of('queue_claim_age_seconds')).toBeCloseTo((queue.claimAgeMs ?? 0) / 1_000, -2);
        expect(views[index]?.['claim_age_s'] ?? 0).toBeCloseTo((queue.claimAgeMs ?? 0) / 1_000, -2);
        expect([of('queue_retry_ratio') ?? null, views[index]?.['retry_rate']]).toEqual([
          queue.retryRate,
          queue.retryRate,
        ]);
        expect(of('queue_paused')).toBe(queue.paused ? 1 : 0);
        expect(of('queue_exact')).toBe(1);
      }
      expect(values.get('pgqueue_nodes{state="alive"}')).toBe(status.nodes.alive);
      expect(values.get('pgqueue_slots')).toBe(status.nodes.slots);
      expect(values.get('pgqueue_leaders')).toBe(1);
      expect(values.get('pgqueue_leader')).toBe(0);
      expect(values.get('pgqueue_numbers_up')).toBe(1);
    }));

  test('and names so many keys as it may, the rest is summed', () =>
    asStandby(
      async (port) => {
        const { values } = await scrape(port);
        const keys = [...values].filter(([name, jobs]) => name.startsWith('pgqueue_key_jobs') && jobs > 0);
        expect(Object.fromEntries(keys)).toEqual({
          'pgqueue_key_jobs{queue="mail",key="a",state="pending"}': 3,
          'pgqueue_key_jobs{queue="mail",key="b",state="pending"}': 2,
          'pgqueue_key_jobs{queue="mail",key="b",state="ready"}': 1,
          'pgqueue_key_jobs{queue="mail",key="other",state="pending"}': 1,
          'pgqueue_key_jobs{queue="mail",key="other",state="running"}': 1,
          'pgqueue_key_jobs{queue="video",key="other",state="running"}': 1,
        });
      },
      { keys: 2 },
    ));

  test('unless it may not', () =>
    asStandby(
      async (port) => {
        const response = await fetch(`http://127.0.0.1:${port}/metrics`);
        expect([response.status, await response.json()]).toEqual([
          404,
          { status: 'unknown', paths: ['/live', '/ready'] },
        ]);
      },
      { metrics: false },
    ));

  test('and of itself alone while the database is away', () =>
    asStandby(async (port) => {
      await sql('alter view pgqueue.queue_status rename to away');
      try {
        const { values } = await scrape(port);
        expect(values.get('pgqueue_numbers_up')).toBe(0);
        expect(values.get('pgqueue_leader')).toBe(0);
        expect([...values.keys()].filter((name) => name.startsWith('pgqueue_queue_'))).toEqual([]);
        expect(values.has('pgqueue_leaders')).toBe(false);
      } finally {
        await sql('alter view pgqueue.away rename to queue_status');
      }
    }));
});

test('what producers, schedulers and workers do is counted by queue and task, under the names that are documented', async () => {
  const scheduler = createScheduler({ connectionString: own.url, health });
  const worker = createWorker({
    connectionString: own.url,
    health,
    tasks: [
      implement(task, ({ fail }) => {
        if (fail === true) throw new Error('no');
      }),
    ],
  });
  const producer = createProducer({ connectionString: own.url });
  await Promise.all([scheduler.start(), worker.start()]);
  try {
    const retry = { maxTries: 2, base: 1, max: 1 };
    await producer.enqueue(task, {}, { queue: 'mail' });
    await producer.enqueue(task, { fail: true }, { queue: 'mail', retry });
    const of = ({ values }: Scrape, name: string): number | undefined =>
      values.get(`pgqueue_${name}{queue="mail",task="hello"}`);
    const seen = await until('all jobs to have ended', async () => {
      const page = await scrape(worker.healthPort);
      return of(page, 'jobs_dead_total') === 1 && of(page, 'jobs_done_total') === 1 && page;
    });
    expect([of(seen, 'jobs_started_total'), of(seen, 'jobs_retried_total')]).toEqual([3, 1]);
    expect([of(seen, 'attempt_duration_seconds_count'), of(seen, 'job_wait_seconds_count')]).toEqual([3, 2]);
    const leading = await scrape(scheduler.healthPort);
    expect(of(leading, 'jobs_dispatched_total')).toBe(3);
    expect(leading.values.get('pgqueue_leader')).toBe(1);
    expect(leading.values.get('pgqueue_leaders_elected_total')).toBe(1);
    expect(leading.values.get('pgqueue_queue_jobs{queue="mail",state="dead"}')).toBe(1);
    expect(leading.values.get('pgqueue_tick_duration_seconds_count')).toBeGreaterThan(0);
    const told = new Set([...seen.types.keys(), ...leading.types.keys()]);
    const known = [
      ...Object.entries(counters).flatMap(([name, { role }]) =>
        role === 'producer' ? [] : [prometheusName.counter(name as keyof typeof counters)],
      ),
      ...Object.keys(histograms).map((name) => prometheusName.histogram(name as keyof typeof histograms)),
      ...Object.keys(gauges).map((name) => prometheusName.gauge(name as keyof typeof gauges)),
    ];
    expect([...told].toSorted()).toEqual(known.toSorted());
  } finally {
    await producer.close();
    await worker.stop();
    await scheduler.stop();
  }
});
