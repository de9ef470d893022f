// A policy is the user's code. Whatever it does, the queue drains within its limits, nothing is lost or run twice, and status says
// what is wrong.
import type { Plan, Policy, Snapshot } from '@pgqueue/core';
import { fifo, policy, turns } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { breaches } from '@pgqueue/postgres/internal';
import { afterEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { TestScheduler } from './support.ts';
import { openBench, until } from './support.ts';

const bench = opened(openBench);
const operator = opened(() => createOperator({ connectionString: bench.test.url }));
afterEach(() => bench.clear());

const limit = 3;
const jobs = 45;
const policyBudgetMs = 300;

const forever = (): never => {
  for (;;);
};
const candidates = ({ lanes }: Snapshot): Plan['dispatch'] =>
  lanes.flatMap((lane) => lane.jobs.map(({ id }) => ({ id, pool: 'default' })));
const first = (snapshot: Snapshot, count: number): Plan['dispatch'] => candidates(snapshot).slice(0, count);
const whole = (plan: Policy['plan'], own: Partial<Policy> = {}): Policy => ({
  name: 'hostile',
  initial: {},
  plan,
  ...own,
});
const planning = (of: (snapshot: Snapshot) => Partial<Plan>): Policy =>
  whole((snapshot, state) => ({ dispatch: [], held: {}, state, ...of(snapshot) }));

/** Three keys; no more than three jobs may be in flight. */
async function fill(): Promise<void> {
  await bench.database.query(`insert into pgqueue.queue_config (queue, concurrency) values ('default', $1)`, [
    limit,
  ]);
  for (const key of ['a', 'b', 'c']) await bench.enqueue({ count: jobs / 3, key });
}

/** A node runs what it gets, until all jobs are done. */
async function drain(): Promise<void> {
  const node = await bench.node({ slots: 10 });
  await until('all jobs are done', async () => {
    await node.done(await node.claim(10));
    expect(await bench.count('work_queue')).toBeLessThanOrEqual(limit);
    return (await bench.count('history', `outcome = 'done'`)) === jobs;
  });
}

/** By the database's times: how many were in flight at once, at most. */
async function mostInFlight(): Promise<number> {
  const [row] = await bench.database.query<{ most: number }>(
    `select max(n)::integer as most from (
       select sum(step) over (order by at, step) as n
       from (select started as at, 1 as step from pgqueue.history union all select finished, -1 from pgqueue.history) steps) sums`,
    [],
  );
  return row?.most ?? 0;
}

async function faultNamed(
  scheduler: TestScheduler,
  { part, says }: { readonly part: string; readonly says: RegExp },
): Promise<void> {
  const warning = await until('status names the fault', async () => {
    const { warnings } = await operator.status();
    return warnings.find((one) => one.kind === 'policy_fault' && one.fault.part === part);
  });
  expect(warning.message).toMatch(says);
  expect(warning.message).toContain('policy hostile');
  expect(scheduler.events).toContainEqual(
    expect.objectContaining({ type: 'policy.failed', policy: 'hostile', part }),
  );
}

const poison = (name: string, hangs: (seq: number) => boolean, onError: 'hold' | 'ignore'): Policy =>
  policy({
    name: 'hostile',
    order: fifo(),
    gates: [
      {
        name,
        onError,
        open: () => ({
          admits: ({ seq }) => (hangs(seq) ? forever() : 'admit'),
          why: () => ({ message: name, untilMs: null }),
        }),
      },
    ],
  });

const cases: readonly (readonly [string, Policy, string, RegExp])[] = [
  ['throws', planning(() => [].reduce((_, one) => one)), 'plan', /Reduce of empty array/],
  [
    'throws for one key',
    planning((seen) => {
      if (seen.lanes.some(({ key }) => key === 'b')) throw new Error('no b');
      return { dispatch: first(seen, 1) };
    }),
    'plan',
    /no b/,
  ],
  ['loops for ever', planning(forever), 'plan', /did not come back within 300 ms/],
  [
    'returns a job that is unknown',
    planning(() => ({ dispatch: [{ id: '00000000-0000-7000-8000-000000000000', pool: 'default' }] })),
    'plan',
    /no candidate/,
  ],
  [
    'returns what is no id at all',
    planning(() => ({ dispatch: [{ id: "'; drop", pool: 'default' }] })),
    'plan',
    /no candidate/,
  ],
  [
    'returns jobs twice',
    planning((seen) => ({ dispatch: [...first(seen, 1), ...first(seen, 1)] })),
    'plan',
    /there twice/,
  ],
  [
    'returns all it sees',
    planning((seen) => ({ dispatch: first(seen, 10) })),
    'plan',
    /must be held by queue_concurrency|no_free_slot/,
  ],
  [
    'returns a promise that fails',
    whole((() => Promise.reject(new Error('late'))) as never),
    'plan',
    /returned a promise/,
  ],
  [
    'changes the snapshot',
    planning((seen) => ({ dispatch: Object.assign(seen.lanes[0] ?? {}, { jobs: [] }).jobs })),
    'plan',
    /read only/,
  ],
  [
    'loops when it is told what was written',
    whole((seen, state) => ({ dispatch: first(seen, seen.inFlight.length === 0 ? 1 : 0), held: {}, state }), {
      written: forever,
    }),
    'written',
    /did not come back/,
  ],
  [
    'keeps a state that is no JSON',
    planning((seen) => ({
      dispatch: first(seen, seen.inFlight.length === 0 ? 1 : 0),
      state: { odd: Number.NaN },
    })),
    'odd',
    /NaN is no JSON/,
  ],
  [
    'has a gate that loops for one job',
    poison('odd', (seq) => seq % jobs === 7, 'ignore'),
    'odd',
    /when it was asked about job/,
  ],
  [
    'has a gate that loops for every job',
    poison('odd', () => true, 'ignore'),
    'odd',
    /when it was asked about job/,
  ],
];

describe.each(cases)('a policy that %s', (does, hostile, part, says) => {
  test('neither stops nor corrupts the queue, and is named', async () => {
    await fill();
    const budget = /loops/.test(does) ? policyBudgetMs : 2_000; // the others come back, on a busy machine too
    const scheduler = await bench.scheduler({ policy: hostile, policyBudgetMs: budget });
    await drain();
    expect(await mostInFlight()).toBeLessThanOrEqual(limit);
    expect(await breaches(bench.database)).toEqual([]);
    await faultNamed(scheduler, { part, says });
    expect(scheduler.leads).toBe(true);
    expect(
      scheduler.events.filter(({ type }) => type === 'leader.lost' || type === 'database.error'),
    ).toEqual([]);
  });
});

test('names and messages of a policy that PostgreSQL refuses are reported, without what it refuses', async () => {
  await fill();
  const long = 'x'.repeat(499);
  const scheduler = await bench.scheduler({
    policy: planning(() => ({ held: { default: { 'odd\u0000\ud800': 1 } } })),
    shadow: planning(() => {
      throw new Error(`${long}\u{1f600}`); // is cut in the middle of a pair
    }),
  });
  const { scheduler: seen, warnings } = await until('status', async () => {
    const status = await operator.status();
    return status.warnings.some(({ message }) => message.includes(long)) && status;
  });
  expect(seen?.held).toEqual({ default: { 'odd\ufffd': 1 } });
  expect(warnings.some(({ message }) => message.includes(`${long}\ufffd`))).toBe(true);
  expect(scheduler.events.filter(({ type }) => type === 'database.error')).toEqual([]);
});

test('a limit of the user that loops for one job holds that one; the others go, and explain says so', async () => {
  await fill();
  const [poisoned] = await bench.database.query<{ id: string; seq: number }>(
    `select id, seq::float8 as seq from pgqueue.queue order by seq limit 1 offset 5`,
    [],
  );
  if (poisoned === undefined) throw new Error('no job');
  const scheduler = await bench.scheduler({
    policy: poison('odd', (seq) => seq === poisoned.seq, 'hold'),
    policyBudgetMs,
  });
  const node = await bench.node({ slots: 10 });
  await until('all others are done', async () => {
    await node.done(await node.claim(10));
    return (await bench.count('history')) === jobs - 1;
  });
  expect(await bench.count('queue', `id = '${poisoned.id}'`)).toBe(1);
  await faultNamed(scheduler, { part: 'odd', says: new RegExp(`job ${poisoned.id}`) });
  expect(JSON.stringify(await scheduler.explain(poisoned.id))).toContain('odd');
});

test('a policy that loops in explain goes on planning', async () => {
  await fill();
  const scheduler = await bench.scheduler({
    policy: whole(
      (seen, state) => ({ dispatch: first(seen, seen.inFlight.length === 0 ? 1 : 0), held: {}, state }),
      { explain: forever },
    ),
    policyBudgetMs,
  });
  const [job] = await bench.database.query<{ id: string }>(
    `select id from pgqueue.queue order by seq desc limit 1`,
    [],
  );
  await until('it leads', () => scheduler.leads); // or nobody asks its policy
  await scheduler.explain(job?.id ?? '');
  await drain();
  await faultNamed(scheduler, { part: 'explain', says: /did not come back/ });
  expect(await mostInFlight()).toBeLessThanOrEqual(limit);
});

test('rates hold while a policy fails, and after the next leader took over', async () => {
  await bench.database.query(
    `insert into pgqueue.queue_config (queue, rate, rate_burst) values ('default', 0.001, 5)`,
    [],
  );
  for (const key of ['a', 'b']) await bench.enqueue({ count: 10, key });
  await bench.node({ slots: 100 });
  const hostile = planning((seen) => ({ dispatch: first(seen, 20) }));
  for (let reign = 0; reign < 3; reign += 1) {
    const scheduler = await bench.scheduler({ policy: hostile, policyBudgetMs });
    await until('ticks', () => scheduler.events.filter(({ type }) => type === 'tick').length >= 3);
    await scheduler.stop();
    expect(await bench.count('work_queue')).toBe(5);
  }
});

test('a shadow that loops for ever costs the live policy nothing but some time, and is named', async () => {
  await fill();
  const scheduler = await bench.scheduler({
    policy: policy({ name: 'live', order: turns() }),
    shadow: { ...planning(forever), name: 'dark' },
    policyBudgetMs,
  });
  await drain();
  const status = await until('status names it', async () => {
    const { warnings, scheduler: seen } = await operator.status();
    return warnings.some(({ message }) => message.includes('policy shadow dark')) && seen !== null && seen;
  });
  expect(status.shadow).toMatchObject({ policy: 'dark', snapshots: 0 });
  expect(scheduler.events).toContainEqual(
    expect.objectContaining({ type: 'policy.failed', policy: 'shadow dark' }),
  );
  expect(await mostInFlight()).toBeLessThanOrEqual(limit);
});

test('a shadow that would do otherwise is compared, and does nothing', async () => {
  await fill();
  const scheduler = await bench.scheduler({
    policy: policy({ order: turns() }),
    shadow: policy({ order: fifo() }),
  });
  await drain();
  const status = await until('status compares', async () => {
    const { scheduler: seen } = await operator.status();
    return seen !== null && seen.shadow !== null && seen;
  });
  expect(status.shadow).toMatchObject({ policy: 'fifo', skipped: 0, failed: 0 });
  await until('an event', () => scheduler.events.some(({ type }) => type === 'shadow.compared'));
});

test('what is wrong with a policy before it plans is told at once', async () => {
  await expect(
    bench.scheduler({ policy: whole((async () => {}) as never), policyBudgetMs: 1 }),
  ).rejects.toMatchObject({
    code: 'configuration',
    message: expect.stringMatching(
      /policyBudgetMs must be a number from 10 to 10000, not 1;.*policy\.plan must not be async/,
    ) as unknown,
  });
});
