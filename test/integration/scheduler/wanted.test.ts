import { gate, policy, rate } from '@pgqueue/core';
import type { SchedulerReport } from '@pgqueue/postgres';
import { readStatus } from '@pgqueue/postgres/internal';
import { afterEach, describe, expect, test } from 'vitest';
import { cliOf } from '../../support/cli.ts';
import { opened } from '../../support/database.ts';
import { scrape } from '../../support/metrics.ts';
import type { TestNode, TestScheduler } from './support.ts';
import { openBench, until } from './support.ts';

const bench = opened(openBench);
afterEach(() => bench.clear());

/** The number as KEDA asks for it. */
async function wantedSlots(pool?: string): Promise<number | null> {
  const call = pool === undefined ? 'wanted_slots()' : 'wanted_slots($1)';
  const [row] = await bench.database.query<{ slots: number | null }>(
    `select pgqueue.${call} as slots`,
    pool === undefined ? [] : [pool],
  );
  return row?.slots ?? null;
}

async function leads(options: Parameters<typeof bench.scheduler>[0] = {}): Promise<TestScheduler> {
  const scheduler = await bench.scheduler({ horizonMs: 0, ...options });
  await until('it leads', () => scheduler.leads);
  return scheduler;
}

async function enqueue(jobs: Parameters<typeof bench.enqueue>[0]): Promise<void> {
  await bench.enqueue(jobs);
  await bench.hint();
}

const configure = (columns: string, values: string): Promise<unknown> =>
  bench.database.query(
    `insert into pgqueue.queue_config (queue, ${columns}) values ('default', ${values})`,
    [],
  );

/** Claims whatever is ready. */
async function running(node: TestNode, count: number): Promise<Awaited<ReturnType<TestNode['claim']>>> {
  const claimed: { readonly id: string; readonly token: string }[] = [];
  await until(`${count} jobs run`, async () => {
    claimed.push(...(await node.claim(count - claimed.length)));
    return claimed.length === count;
  });
  return claimed;
}

describe('slots that a pool could use', () => {
  test('jobs that run, are ready, or wait for a slot; after their end, none', async () => {
    await leads();
    await expect.poll(() => wantedSlots()).toBe(0);
    const node = await bench.node({ slots: 2 });
    await enqueue({ count: 5 });
    await expect.poll(() => wantedSlots()).toBe(5);
    const jobs = await running(node, 2);
    expect(await bench.count('work_queue')).toBe(2);
    await expect.poll(() => wantedSlots()).toBe(5);
    await node.done(jobs);
    await expect.poll(() => wantedSlots()).toBe(3);
    for (let left = 3; left > 0; left -= 1) await node.done(await running(node, 1));
    await expect.poll(() => wantedSlots()).toBe(0);
  });

  test('without a node, jobs wait for one; of one pool, and not of another', async () => {
    await leads();
    await configure('pool', `'slow'`);
    await enqueue({ count: 7 });
    await enqueue({ count: 2, queue: 'other' });
    await expect.poll(() => wantedSlots('slow')).toBe(7);
    await expect.poll(() => wantedSlots('default')).toBe(2);
    await expect.poll(() => wantedSlots('no-such-pool')).toBe(0);
  });

  test('jobs that no node of the pool can run would not run on more of them', async () => {
    await leads();
    await bench.node({ slots: 1 });
    await enqueue({ count: 3, task: 'unknown' });
    await enqueue({ count: 4, key: 'other' });
    await expect.poll(() => wantedSlots()).toBe(4);
  });

  test.each([
    ['one key', (): Promise<void> => enqueue({ count: 700 }), 700],
    ['one key, more than count', (): Promise<void> => enqueue({ count: 5_000 }), 1_000],
    [
      'two keys',
      async (): Promise<void> => {
        await bench.enqueue({ count: 300, key: 'a', priority: 5 });
        await enqueue({ count: 90, key: 'b' });
      },
      390,
    ],
  ])('jobs behind the few of each key that ticks read: %s', async (_, load, expected) => {
    await leads();
    await load();
    await expect.poll(() => wantedSlots()).toBe(expected);
    await bench.node({ slots: 1 });
    // the one that got a slot counts beside those that wait
    await until('one has a slot', async () => {
      const slots = (await wantedSlots()) ?? 0;
      return (await bench.count('work_queue')) === 1 && slots === Math.min(expected, 1_001);
    });
  });

  test('limits hold over all parts of what is planned at a time', async () => {
    await leads();
    await configure('concurrency', '700');
    await bench.database.query(
      `insert into pgqueue.queue (task, key) select 't', (n / 3)::text from generate_series(0, 14999) n`,
      [],
    );
    await bench.hint();
    await expect.poll(() => wantedSlots()).toBe(700);
    await bench.database.query('update pgqueue.queue_config set concurrency = null', []);
    await bench.hint();
    await expect.poll(() => wantedSlots()).toBe(1_000);
  });

  test('delayed jobs count when they are due, those of a paused queue not at all', async () => {
    await leads();
    await enqueue({ count: 3, runAfter: `now() + interval '1 hour'` });
    await enqueue({ count: 2 });
    await expect.poll(() => wantedSlots()).toBe(2);
    await configure('paused', 'true');
    await bench.hint();
    await expect.poll(() => wantedSlots()).toBe(0);
    await bench.database.query('update pgqueue.queue_config set paused = false', []);
    await bench.database.query('update pgqueue.queue set run_after = now() where run_after is not null', []);
    await bench.hint();
    await expect.poll(() => wantedSlots()).toBe(5);
  });

  test('a limit counts up to what it allows, with or without nodes', async () => {
    await leads();
    await configure('concurrency', '3');
    await enqueue({ count: 400 });
    await expect.poll(() => wantedSlots()).toBe(3);
    const node = await bench.node({ slots: 2 });
    const jobs = await running(node, 2);
    await expect.poll(() => wantedSlots()).toBe(3);
    await node.done(jobs);
    await running(node, 2);
    await expect.poll(() => wantedSlots()).toBe(3);
  });

  test('a limit for each key', async () => {
    await leads();
    await configure('key_concurrency', '2');
    for (const key of ['a', 'b', 'c']) await enqueue({ count: 50, key });
    await enqueue({ count: 1, key: 'd' });
    await expect.poll(() => wantedSlots()).toBe(7);
  });

  test('a rate counts the jobs that it lets go at this moment', async () => {
    const slow = rate({ name: 'slow', perSecond: 0.001, burst: 4 });
    await leads({ policy: policy({ gates: [slow] }) });
    await enqueue({ count: 100 });
    await expect.poll(() => wantedSlots()).toBe(4);
    const node = await bench.node({ slots: 10 });
    const jobs = await running(node, 4);
    await expect.poll(() => wantedSlots()).toBe(4);
    await node.done(jobs);
    await expect.poll(() => wantedSlots()).toBe(0);
  });

  test('jobs that go together take one slot', async () => {
    const together = { when: () => true, max: 10, ageMs: 0 };
    await leads({ policy: policy({ coalesce: [together] }) });
    await bench.node({ slots: 1, tasks: { t: { min: 1, max: 1, batch: true } } });
    await enqueue({ count: 30 });
    await expect.poll(() => wantedSlots()).toBe(3);
  });

  test('short jobs count as the batches that they would make', async () => {
    await leads();
    await bench.node({ slots: 1 });
    await bench.database.query(`update pgqueue.node set runs = '{"t": 1}'`, []);
    await enqueue({ count: 200 });
    // a batch is 25 ms of work, here 25 jobs; one job is ready for the slot
    await expect.poll(() => wantedSlots()).toBe(9);
  });

  test('a policy that plans jobs by a rule of its own, and one that fails', async () => {
    let broken = false;
    const even = gate({
      name: 'even',
      admits: ({ seq }) => {
        if (broken) throw new Error('it is broken');
        return seq % 2 === 0 || 'it is odd';
      },
    });
    await leads({ policy: policy({ gates: [even] }) });
    await enqueue({ count: 6 });
    await expect.poll(() => wantedSlots()).toBe(3);
    broken = true;
    await enqueue({ count: 6 });
    // a gate that fails is left out, as in the plans that are written
    await expect.poll(() => wantedSlots()).toBe(12);
  });
});

describe('nobody knows the number', () => {
  test('without a leader, of an old report, and of a report without it', async () => {
    expect(await wantedSlots()).toBeNull();
    const scheduler = await leads();
    await enqueue({ count: 1 });
    await expect.poll(() => wantedSlots()).toBe(1);
    await scheduler.stop();
    expect(await wantedSlots()).toBeNull();
    const [led] = await bench.database.query<{ epoch: number }>(
      `select epoch::float8 as epoch from pgqueue.lead('l', 600000)`,
      [],
    );
    const report = async (content: Partial<SchedulerReport>): Promise<void> => {
      await bench.database.query(`select pgqueue.report('l', $1, $2)`, [led?.epoch, JSON.stringify(content)]);
    };
    await report({ wanted: { default: 5 } });
    expect([await wantedSlots(), await wantedSlots('other')]).toEqual([5, 0]);
    await report({});
    expect(await wantedSlots()).toBeNull();
    await report({ wanted: null });
    expect(await wantedSlots()).toBeNull();
    await report({ wanted: { default: 5 } });
    await bench.database.query(
      `update pgqueue.scheduler_report set written = clock_timestamp() - interval '91 seconds'`,
      [],
    );
    expect(await wantedSlots()).toBeNull();
    await bench.database.query(`select pgqueue.resign('l', $1)`, [led?.epoch]);
  });
});

test('status, the command line and metrics say the same, to the unit', async () => {
  const { healthPort } = await leads({ health: { port: 0, host: '127.0.0.1' } });
  await configure('concurrency', '40');
  await enqueue({ count: 123 });
  await enqueue({ count: 17, queue: 'other' });
  await expect.poll(() => wantedSlots()).toBe(57);
  const { wanted } = await readStatus(bench.database);
  expect(wanted).toEqual({ default: 57 });
  const { text, json } = await cliOf(() => bench.test.url).ask('status');
  expect(json).toMatchObject({ wanted });
  expect(text).toMatch(/^wanted slots +default 57$/m);
  await expect
    .poll(async () => (await scrape(healthPort)).values.get('pgqueue_wanted_slots{pool="default"}'))
    .toBe(57);
});
